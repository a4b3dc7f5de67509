"""A throwaway SLURM of one node on loopback, made of the real daemons."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "setpriv")
PROCESSORS = 8

_CONFIG = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
KillWait=2
MinJobAge=300
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Asks the commands of a SLURM what it does.

    The daemons are found through the environment variable SLURM_CONF, which is set as long as
    they run, so that `sbatch` and `squeue` of any process started here speak to them.
    """

    def __init__(self, folder):
        self.folder = folder

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        return done.stdout

    def jobs(self, *states):
        """Numbers of the jobs that wait or run, or are in one of some states."""
        wanted = ",".join(states or ("pending", "running", "completing"))
        return self.run("squeue", "-h", "-o", "%A", "-t", wanted).split()

    def state(self, job):
        """State of a job, such as COMPLETED, for 300 seconds after its end."""
        shown = self.run("scontrol", "show", "job", job, "--oneliner")
        return shown.split("JobState=")[1].split()[0]

    def cancel(self, *jobs):
        self.run("scancel", *jobs)

    def cancel_all(self):
        """Cancel what there is and wait until it is gone."""
        self.cancel("--user", "root" if os.getuid() == 0 else str(os.getuid()))
        wait_until(lambda: not self.jobs(), 60, "jobs are still there")


def missing_reason():
    """Why there can be no SLURM here; empty where there can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]}: install slurmctld, slurmd, slurm-client, munge and util-linux"
    return "" if os.getuid() == 0 else "slurmd starts jobs as root only"


@contextmanager
def running_slurm():
    """Start munged, slurmctld and slurmd, and stop them and all jobs at the end."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o711)  # munged wants no one else to write here, and all to pass
        _prepare(folder)
        previous = os.environ.get("SLURM_CONF")
        stack.callback(_restore, previous)
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        stack.callback(_end_leftovers, folder)
        _daemon(stack, folder, "munged", *_munge_options(folder))
        wait_until((folder / "munge.socket").exists, 20, _log(folder, "munged"))
        _daemon(stack, folder, "slurmctld", "-D", "-i", "-c")
        _daemon(stack, folder, "slurmd", "-D", "-c")
        slurm = Slurm(folder)
        wait_until(lambda: _idle(slurm), 60, _log(folder, "slurmctld"))
        stack.callback(_cancel_quietly, slurm)
        yield slurm


@pytest.fixture(scope="session")
def slurm_daemons():
    if reason := missing_reason():
        pytest.skip(reason)
    with running_slurm() as slurm:
        yield slurm


@pytest.fixture
def slurm(slurm_daemons, monkeypatch):
    """A SLURM without jobs; those that a test leaves are cancelled."""
    monkeypatch.setenv("PYTHONPATH", path_without_bokeh(slurm_daemons.folder / "path"))
    yield slurm_daemons
    slurm_daemons.cancel_all()


def path_without_bokeh(folder):
    """A PYTHONPATH for processes that need no dashboard: Bokeh is slow to import."""
    folder.mkdir(exist_ok=True)
    (folder / "bokeh.py").write_text("raise ImportError\n")
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def wait_until(condition, seconds, otherwise):
    """Wait for a condition to hold, and fail with a message where it does not in time."""
    end = time.monotonic() + seconds
    while not (held := condition()):
        if time.monotonic() > end:
            shown = otherwise() if callable(otherwise) else otherwise
            pytest.fail(f"not within {seconds:g} s: {shown}")
        time.sleep(0.15)  # many conditions start a process
    return held


def _prepare(folder):
    for name in ("state", "spool"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    controller, node = free_ports(2)
    text = _CONFIG.format(
        host=socket.gethostname().partition(".")[0],
        controller=controller,
        node=node,
        folder=folder,
        processors=PROCESSORS,
    )
    (folder / "slurm.conf").write_text(text)


def _munge_options(folder):
    files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{name}" for option, name in files.items()]
    return ["--foreground", "--num-threads=2", *options]


def _daemon(stack, folder, program, *options):
    """Start a daemon that ends with this process, even where this one is killed."""
    log = stack.enter_context((folder / f"{program}.out").open("wb"))
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", program, *options],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    stack.callback(_stop, process)


def _stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _end_leftovers(folder):
    """Kill what jobs left behind: slurmstepd names the folder, and its children are its own."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            environment = process.environ() if process.pid != os.getpid() else {}
            ours = environment.get("SLURM_CONF", "").startswith(f"{folder}/")
            if ours and ("SLURM_JOB_ID" in environment or "slurmstepd" in " ".join(command)):
                process.send_signal(signal.SIGKILL)


def _cancel_quietly(slurm):
    with suppress(Exception):
        slurm.cancel_all()


def _idle(slurm):
    with suppress(subprocess.SubprocessError):
        return slurm.run("sinfo", "-h", "-o", "%T").strip() == "idle"
    return False


def _log(folder, program):
    def last_lines():
        texts = [path.read_text(errors="replace") for path in folder.glob(f"{program}.*")]
        return f"{program} did not start: " + "\n".join(texts)[-2000:]

    return last_lines


def free_ports(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _restore(previous):
    os.environ.pop("SLURM_CONF", None)
    if previous is not None:
        os.environ["SLURM_CONF"] = previous
