"""A throwaway SLURM of one node on loopback, made of the real daemons."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.processes import free_ports, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "setpriv")
CONFIG = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000
PartitionName=main Nodes={host} Default=YES
"""


def asked(*command):
    """What a command of SLURM says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout.strip()


@contextmanager
def running_slurm():
    """Start munged, slurmctld and slurmd, which end with this process, even a killed one.

    Commands of any process that is started here find the daemons through SLURM_CONF.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"SLURM needs root, and the programs {', '.join(PROGRAMS)}")
    with ExitStack() as stack:
        # The folder has a short name of its own: munged wants no one else to write above it.
        folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o711)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        controller, node = free_ports(2)
        host = socket.gethostname().partition(".")[0]
        text = CONFIG.format(host=host, controller=controller, node=node, folder=folder)
        (folder / "slurm.conf").write_text(text)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))

        def start(*command):
            log = stack.enter_context((folder / f"{command[0]}.log").open("wb"))
            words = ["setpriv", "--pdeathsig", "KILL", *command]
            process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)

        def logs():
            texts = [path.read_text(errors="replace") for path in folder.glob("*.log")]
            return "SLURM did not start: " + "\n".join(texts)[-3000:]

        names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
        files = [f"--{option}={folder}/munge.{name}" for option, name in names.items()]
        start("munged", "--foreground", f"--log-file={folder}/munged.log", *files)
        wait_until((folder / "munge.socket").exists, 20, logs)
        start("slurmctld", "-D", "-i", "-c")
        start("slurmd", "-D", "-c")
        wait_until(lambda: asked("sinfo", "-h", "-o", "%T") == "idle", 60, logs)
        stack.callback(wait_until, lambda: not asked("squeue", "-h"), 60, "jobs are still there")
        stack.callback(asked, "scancel", "--user", "root")
        yield
