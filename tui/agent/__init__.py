"""The part that runs on every watched host, the local one too: it measures and answers, and decides nothing.

It is sent as source over standard input, runs under Python 3.6 and later with the standard library alone (``pynvml``
travels with it), and leaves nothing behind. It must not import anything of ``tui``.

Wire protocol 1
===============

Start. The monitor runs :data:`tui.collect.payload.BOOT` on the host and writes to its standard input: length-prefixed
modules (see ``payload``), an end mark, then requests. Exit code 97: no usable python3. 98: the bootstrap fell through
(the payload did not arrive whole).

Output. Whatever rc files print comes first and is thrown away by the reader, up to and including the sync marker
``\\0\\0GPUTOP-HANG-1\\n``. After it comes one zlib stream; a sync flush ends each frame; a frame is one JSON object and
a LF. Bytes of unknown encoding (command lines, paths) are decoded with ``surrogateescape`` and escaped by JSON.

Frames from the agent
---------------------
``{"type": "hello", "v": 1, "boot_id", "hostname", "python", "pid", "uid", "machine", "system", "ncpu", "mem_mib",
"clk_tck", "ptrace_scope": int|null, "simulated": bool, "mono", "wall"}`` — once, before any tick.

``{"type": "tick", "mono", "wall", ...}`` — every interval (1 s; the first one at once), doubling as the heartbeat:

* ``gpus``: list of objects with the keys of :class:`tui.model.Gpu` (``processes``: ``[[pid, used_mib|null], ...]`` or
  null), or null with ``gpu_error`` where NVML does not answer. ``gpus_age_s``: age of that reading.
* ``procs``: list of objects with the keys of :class:`tui.model.Proc` (``children``: ``[[comm, n, cpu_s], ...]``): the
  processes in focus (see ``watch``), each tick.
* ``new``: identities, with the keys of :class:`tui.model.Identity`: every process first seen since the last frame
  (at the first frame all processes; kernel threads are left out), and a process again when its command line changed.
* ``gone``: ``[[pid, start_ticks], ...]`` of announced processes that have ended.
* ``logs``: for followed logs with news: ``{"key", "path", "size", "inode", "mtime", "offset", "data": base64,
  "lines_total": int|null, "skipped_bytes": int, "change": "", "error": null}``. ``data`` starts at byte ``offset``;
  a jump in ``offset`` is a gap that was skipped (counted in ``skipped_bytes``).
* ``net``: ``{"rx_bytes", "tx_bytes"}`` summed over interfaces but ``lo``; ``load1``; ``self``: ``{"cpu_s", "rss_mib"}``
  (helpers included in cpu); ``notes``: sentences on what could not be read.

``{"type": "answer", "id": N, "last": bool, ...}`` — one or several per request; ``"error": "sentence"`` where it failed.

Requests to the agent (one JSON object and a LF each; ``id`` is chosen by the monitor)
------------------------------------------------------------------------------------
* ``{"do": "watch", "procs": [[pid, start_ticks], ...]}`` replaces the focus. Descendants that are not in focus
  themselves are counted in ``children`` of their nearest ancestor in focus.
* ``{"do": "follow", "key": str, "path": str, "fd": [pid, n]|null, "offset": int|null}`` — ``fd`` opens
  ``/proc/PID/fd/N`` (a deleted file); ``offset`` null: head 256 KiB and tail 1 MiB of what lies there. ``unfollow``.
* ``{"do": "filter", "patterns": [str, ...]}`` regular expressions used only for logs that grow past 256 KB a second.
* ``{"do": "interval", "s": float}``; ``{"do": "ping"}`` answers ``{"mono", "wall"}``; ``{"do": "stop"}`` ends the agent.
* ``{"do": "look", "what": str, ...}`` one of ``threads`` (``procs``: list; answers ``{"threads": {pid: [{"tid", "comm",
  "state", "cpu_s", "wchan", "syscall"}, ...]}}``), ``files`` (``paths``: globs; name, size, mtime), ``newest``
  (``glob``: the newest matching path), ``read`` (``path``, ``offset``, ``limit``: base64), ``disk`` (``paths``: free
  bytes), ``doctor`` (what the host allows: ptrace, memlock, ``/dev/shm``, python, py-spy). In a helper, with a deadline.
* ``{"do": "put", "name": str, "size": int, "sha256": str, "offset": int, "data": base64}`` in pieces; a memory file
  that disappears with the agent. Answers with the last piece.
* ``{"do": "stacks", "procs": [[pid, start_ticks], ...], "program": null|name-of-put|path, "native": false}`` runs py-spy
  without blocking, several at once; one answer a process as it comes: ``{"pid", "ok", "json"|"error",
  "duration_s", "wall"}``; the final one has ``last``.
* ``{"do": "abort", "procs": [[pid, start_ticks], ...], "hold": [[pid, start_ticks], ...]}`` sends SIGABRT to all of
  them through pidfds: holders and targets are stopped first, then the targets are let go one after another, so that
  their dumps do not mix and none dies of another's death. Answers per process ``{"pid", "result":
  "died"|"alive"|"gone"|"reused"|"denied", "stderr": where, "offset": size of that file before, "wall"}``.
* ``{"do": "signal", "procs": [[pid, start_ticks]], "signal": int}`` through a pidfd, or not at all.
"""
