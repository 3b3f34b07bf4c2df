"""The part that runs on every watched host, the local one too: it measures and answers, and decides nothing.

It is sent as source over standard input, runs under Python 3.6 and later with the standard library alone (``pynvml``
travels with it), and leaves nothing behind. It must not import anything of ``tui``.

Wire protocol 1
===============

Start. The monitor runs :data:`tui.collect.payload.BOOT` on the host and writes to its standard input: the boot's second
stage, length-prefixed modules (see ``payload``), an end mark, then requests. Exit code 96: no Linux. 97: no usable
python3. 98: the bootstrap fell through (the payload did not arrive whole).

Output. Whatever rc files print comes first and is thrown away by the reader, up to and including the sync marker
``\\0\\0GPUTOP-HANG-1\\n``. After it comes one zlib stream; a sync flush ends each frame; a frame is one JSON object and
a LF. Bytes of unknown encoding (command lines, paths) are decoded with ``surrogateescape`` and escaped by JSON.

End. The agent ends on the end of its input, after 30 s without a byte from the monitor (ping every 10 s), when its
parent is gone, and on ``stop``; its helpers with it. Only an abort that has begun is carried through (15 s at most).

Frames from the agent
---------------------
``{"type": "hello", "v": 1, "boot_id", "hostname", "python", "pid", "uid", "machine", "system", "ncpu", "mem_mib",
"clk_tck", "ptrace_scope": int|null, "simulated": bool, "mono", "wall"}`` — once, before any tick.

``{"type": "tick", "mono", "wall", ...}`` — every interval (1 s), doubling as the heartbeat; the first one at once, and
one early when the first processes, the first GPU readings or what was just asked for are there:

* ``gpus``: list of objects with the keys of :class:`tui.model.Gpu` (``processes``: ``[[pid, used_mib|null], ...]`` or
  null; a GPU that cannot be read has ``index``, ``error`` and what is known of its ``uuid`` and ``name``), or null with
  ``gpu_error`` where NVML does not answer. ``gpus_age_s``: age of that reading.
* ``procs``: list of objects with the keys of :class:`tui.model.Proc` (``children``: ``[[comm, n, cpu_s], ...]``): the
  processes in focus (see ``watch``), each tick.
* ``new``: identities, with the keys of :class:`tui.model.Identity`: every process first seen since the last frame
  (in the first frames all processes; kernel threads and the agent's own are left out), and a process again when what
  is known of it changed (title, output, port). ``error`` where it could not be read, or not all of it.
* ``gone``: ``[[pid, start_ticks], ...]`` of announced processes that have ended.
* ``logs``: for followed logs with news: ``{"key", "path", "size", "inode", "mtime", "offset", "data": base64,
  "lines_total": int|null, "skipped_bytes": int, "change": "", "error": null}``; several a log where pieces were left
  out. ``data`` starts at byte ``offset``; a jump in ``offset`` is a gap that was skipped (counted in
  ``skipped_bytes``). ``change``: ``rotated``, ``truncated`` (both begin anew), ``deleted``, ``appeared``.
* ``net``: ``{"rx_bytes", "tx_bytes"}`` summed over interfaces but ``lo``; ``load1``; ``self``: ``{"cpu_s", "rss_mib"}``
  (helpers included in cpu, not in rss); ``notes``: sentences on what could not be read.

``{"type": "answer", "id": N, "last": bool, ...}`` — one or several a request; ``"error": "sentence"`` where it failed.

Requests to the agent (one JSON object and a LF each; ``id`` is chosen by the monitor)
------------------------------------------------------------------------------------
* ``{"do": "watch", "procs": [[pid, start_ticks], ...]}`` replaces the focus. Descendants that are not in focus
  themselves are counted in ``children`` of their nearest ancestor in focus.
* ``{"do": "follow", "key": str, "path": str, "fd": [pid, n]|null, "offset": int|null}`` — ``fd`` opens
  ``/proc/PID/fd/N`` (a deleted file); ``offset`` null: of what lies there the head of 256 KiB, the tail of 1 MiB, and
  between them the lines that match the filter, as far back as 0.4 s of search reach. ``{"do": "unfollow", "key"}``.
* ``{"do": "filter", "patterns": [str, ...], "words": [[[str, ...], ...], ...]}`` regular expressions used for such a
  middle and for logs that grow past 256 KB a second: of these every matching line and the last 64 KiB are sent. A line
  that was redrawn counts as what it last said. ``words``, optional: for each pattern lists of runs of ASCII letters; of
  each list one stands in every line that matches (``*Error``: one that ends so). Without, each line is tried.
* ``{"do": "interval", "s": float}`` (0.1 to 10); ``{"do": "ping"}`` answers ``{"mono", "wall"}``; ``{"do": "stop"}``.
* ``{"do": "look", "what": str, ...}`` one of ``threads`` (``procs``: list; answers ``{"threads": {pid: [{"tid", "comm",
  "state", "cpu_s", "wchan", "syscall"}, ...]|null}}``), ``files`` (``paths``: globs; ``{"files": [{"path", "size",
  "mtime", "mode"}]}``), ``newest`` (``glob``; ``{"path": the newest matching file|null}``), ``read`` (``path``,
  ``offset``, ``limit``; ``{"size", "data": base64}``), ``disk`` (``paths``; ``{"disk": {path: {"free", "total",
  "free_inodes"}|null}}``, bytes), ``doctor`` (``part``: what would spoil a launch, see :mod:`.preflight`), in a helper
  each, 10 s; ``gpu_health`` (``{"gpus": rows as in a tick, "health": {"driver", "cuda", "gpus": {index: see
  :func:`.gpuhealth.health`}}}``) in the driver's own helper, with its next reading.
* ``{"do": "look", "what": "family", "procs": [[pid, start_ticks], ...]}`` the processes with all that they started: see
  :func:`.family.look`. ``"sigabrt"``: what the signal would do to each as it is now, see :func:`.sigabrt.look`.
* Looks that the diagnosis asks for, each about ``procs`` (``[[pid, start_ticks], ...]``; one that is gone is no
  error), in a helper, 10 s, answers bounded; ``looked``: the pids that were asked about.

  * ``locks``: ``{"locks": [{"path", "kind": "flock"|"baton"|"soft", "age_s", "size", "fs", "owner": pid|null,
    "owner_lives", "owner_comm", "owner_state", "owner_cpu_s" (with its descendants), "all_asked": whether all processes
    in sight that may have it could be asked, "made_here": whether a soft lock names this host|null, "quiet_s": since
    the last write in the folder of a baton that nobody is seen with|null, "waiters", "open_by", "concerns": [pid,
    ...]}], "whole_host": whether the processes of all containers are in sight, "launched_s": the age of the oldest of
    ``procs``}``: lock files in the processes' own cache folders (:mod:`.caches`), and any that they wait for in the
    kernel. ``concerns``: those whose environment leads to it, who hold it or wait for it.
  * ``surroundings`` (``left``: ``[[folders, [pid, ...]], ...]`` groups of processes that have ended): ``{"groups":
    [{"folders", "pids", "oom_kills", "memory_events", "memory_max", "memory_used" (bytes), "refaults" (pages),
    "quota_cores", "periods", "throttled", "throttled_s", "pressure"}], "shm": [{"free", "total" (bytes), "pids"}],
    "pressure": {"cpu"|"memory"|"io": {"some", "full": % of 10 s}}, "ncpu", "mono"}``. Control groups of both versions.
  * ``kernel_log`` (``since_s``): ``{"lines": [{"age_s", "text"}], "readable", "why"}``: lines on GPUs, memory, storage
    and links only, the last 64.
  * ``holdups``: ``{"processes": {pid: {"state", "tracer": {"pid", "comm", "state"}|null, "pending": signal mask,
    "stdout", "stderr": {"pipe", "readers": [{"pid", "comm", "state"}], "bytes", "size"}|null}|null}}``.
  * ``sockets`` (``master``: ``[name, port]``): ``{"sockets": {pid: {"states": {name: n}, "tcp": [{"state", "here",
    "peer", "unsent", "unread" (bytes), "tries"}], "received": {inode: bytes}, "meets": bool|null (is connected to that
    port, or holds it)}|null}, "master": {"name", "port", "here", "listening": bool|null}|null}``.
  * ``infiniband``: ``{"ports": [{"device", "port", "state", "physical", "rate", "rx_bytes", "tx_bytes", "errors"}],
    "mono"}``.
  * ``gpm`` (``gpus``: indices, optional; nobody asks for it by himself): ``{"gpm": {index: {"sm_util_pct",
    "sm_occupancy_pct", "tensor_pct", "dram_pct", "pcie_tx_mib_s", "pcie_rx_mib_s", "nvlink_rx_mib_s",
    "nvlink_tx_mib_s"}|null}, "why": {index: sentence}, "over_s"}``: over half a second, on Hopper and later.
* ``{"do": "put", "name": str, "size": int, "sha256": str, "packed": bool, "offset": int, "data": base64}`` in pieces,
  in order; a memory file that disappears with the agent. Answers with the last piece. ``packed``: what travels is zlib,
  ``size`` counts that, the checksum is of what comes out.
* ``{"do": "stacks", "procs": [[pid, start_ticks], ...], "program": null|name-of-put|path, "native": false, "at_least":
  null|[0, 4, 2]}`` runs py-spy without blocking (``native``: it pauses), eight at once, 10 s each (``native``: 20); one
  answer a process as it comes: ``{"pid", "ok", "stacks"|"error", "duration_s", "wall"}``; the final one has ``last``.
  ``stacks`` are folded, see :func:`.dumper.fold`. A program of the host older than ``at_least`` is refused.
* ``{"do": "ras", "procs": [[pid, start_ticks], ...]}`` polls NCCL's RAS once through these processes: ``{"asked":
  [{"address", "pids", "wall", "duration_s", "data": base64 of zlib, "format": "text"|"json", "protocol"} or with
  "error"]}``, empty where none has one. 25 s.
* ``{"do": "recorder", "procs": [[pid, start_ticks, rank|null], ...]}`` asks for PyTorch's flight records through their
  pipes; one answer a process: ``{"pid", "path", "mtime", "asked", "data": base64 of zlib}``, or ``error``, or neither
  where it has none. 16 s.
* ``{"do": "abort", "procs": [[pid, start_ticks], ...], "hold": [[pid, start_ticks], ...]}`` sends SIGABRT to all of
  them through pidfds: holders and targets are stopped first, then the targets are let go one after another, so that
  their dumps do not mix and none dies of another's death. Answers per process ``{"pid", "result":
  "died"|"alive"|"gone"|"reused"|"denied", "why"?, "effect": what it was known to do, "stderr": where its dump went,
  "offset": size of that file before, "end": int|null, "data": base64 of what came (1 MiB at most), "wall"}``.
* ``{"do": "signal", "procs": [[pid, start_ticks]], "signal": int}`` through a pidfd, or not at all; per process
  ``{"pid", "result": "sent"|"gone"|"reused"|"denied", "why", "wall"}``.
"""
