"""Reports of results, one HTML file each: ``pip install 'dhsic[report]'``."""

from dhsic.report.run import MemoryUse, Run
from dhsic.report.write import check_report, write_report

__all__ = ["MemoryUse", "Run", "check_report", "write_report"]
