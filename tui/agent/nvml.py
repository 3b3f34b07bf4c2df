"""Reading GPUs through NVML. Runs in a helper, since a driver call may never return.

``Reader`` is the one door to ``pynvml`` (or to :mod:`.simulated`, which has the same functions): a function that the
driver or the GPU does not have gives None and is not asked again; numbers that drivers use for "not available", and
numbers that no GPU can show, give None; a GPU that is lost gives a row with one sentence.
"""

import ctypes
import time

MAY_TAKE_S = 3.0
INIT_MAY_TAKE_S = 30.0
"""Without persistence mode the first initialisation takes seconds a GPU."""

HEALTH = "health of GPU "
"""Marks what is read on request: a call that hangs there costs that answer, and not the GPU's row."""

SLOW_EVERY = 10
"""Readings between two looks at what hardly changes (power limit, MIG)."""

ALL_LINKS = 0xFFFFFFFF
NVLINK_TX, NVLINK_RX = 138, 139
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX/RX: KiB, driver 455 and later, summed over links with scope UINT_MAX."""
PCIE_TX, PCIE_RX = 197, 198
"""NVML_FI_DEV_PCIE_COUNT_TX/RX_BYTES: bytes, may wrap; driver 535 and later."""

NOT_SUPPORTED, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 3, 13, 15, 16
LOST = {
    GPU_IS_LOST: "the GPU is lost (fallen off the bus): look for an Xid in the kernel log; it needs a reset or reboot",
    RESET_REQUIRED: "the GPU needs a reset: nvidia-smi --gpu-reset",
    17: "the driver refuses to answer for this GPU (operating system error)",
    999: "the driver does not know what is wrong with this GPU (Unknown Error): look for an Xid in the kernel log",
}
INIT = {
    4: "the NVIDIA driver may not be used: permission refused",
    9: "the NVIDIA driver is not loaded: modprobe nvidia",
    12: "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)",
    18: "the NVIDIA driver and its library have different versions: reload the driver or reboot the host",
    999: "the NVIDIA driver does not answer (Unknown Error); a container that lost its devices must be restarted",
}

THROTTLE = (
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
)

MIB = 1048576.0


class Unavailable(Exception):
    """NVML as a whole does not answer; the text is a sentence for people."""


class Counter:
    """A counter that may wrap, turned into a rate over its own interval."""

    def __init__(self):
        self._last: "tuple[float, float] | None" = None

    def rate(self, value: "float | None", now: float) -> "float | None":
        last, self._last = self._last, None if value is None else (value, now)
        if last is None or value is None or value < last[0] or now <= last[1]:
            return None
        return (value - last[0]) / (now - last[1])


class Device:
    """One GPU's handle and what is remembered of it between readings."""

    def __init__(self, index: int, handle: "Any"):
        self.index, self.handle = index, handle
        self.missing: "set[tuple[str, tuple[Any, ...]]]" = set()
        self.readings = 0
        self.fixed: "dict[str, Any]" = {}
        self.xids: "list[int]" = []
        self.counters: "dict[str, Counter]" = {}

    def rate(self, name: str, value: "float | None", now: float) -> "float | None":
        return self.counters.setdefault(name, Counter()).rate(value, now)


class Reader:
    """``api`` is ``pynvml`` or what stands for it. Raises Unavailable where it cannot be initialised."""

    def __init__(self, api: "Any"):
        self._api = api
        self._devices: "dict[int, Device]" = {}
        self._names: "dict[int, dict[str, Any]]" = {}
        self._events = None
        try:
            api.nvmlInit()
        except api.NVMLError as failure:
            raise Unavailable(INIT.get(failure.value, "the NVIDIA driver cannot be used: %s" % failure)) from None

    def count(self) -> int:
        """How many GPUs there are now; one that fell off the bus shifts the indices, so handles are looked up anew."""
        try:
            count = self._api.nvmlDeviceGetCount()
        except self._api.NVMLError as failure:
            raise Unavailable(INIT.get(failure.value, "the NVIDIA driver stopped answering: %s" % failure)) from None
        if len(self._devices) > count or any(index >= count for index in self._devices):
            self._devices.clear()
            self._names.clear()
        return count

    def row(self, index: int, slow_pcie: bool) -> "dict[str, Any]":
        """One GPU's reading, with the keys of the frame's ``gpus``. ``slow_pcie`` allows the calls of 20 ms each."""
        device = self._devices.get(index)
        try:
            if device is None:
                device = self._open(index)
            return self._read(device, slow_pcie)
        except self._api.NVMLError as failure:
            self._devices.pop(index, None)
            row = dict(self._names.get(index, {}))
            row.update(index=index, error=LOST.get(failure.value, "the driver refuses this GPU: %s" % failure))
            return row

    def ask(self, index: int, name: str, *arguments: "Any") -> "Any":
        """One more call on a GPU that was read: None where it or the driver does not have it; raises NVMLError."""
        return self._call(self._devices[index], name, *arguments) if hasattr(self._api, name) else None

    def ask_driver(self, name: str) -> "Any":
        """One call without a GPU; None where it fails."""
        try:
            return getattr(self._api, name)() if hasattr(self._api, name) else None
        except self._api.NVMLError:
            return None

    def filled(self, index: int, name: str, structure: str) -> "Any":
        """What a call wrote into an empty structure of pynvml's; None and raises as with :meth:`ask`."""
        if not hasattr(self._api, name) or not hasattr(self._api, structure):
            return None
        empty = getattr(self._api, structure)()
        try:
            getattr(self._api, name)(self._devices[index].handle, ctypes.byref(empty))
        except self._api.NVMLError as failure:
            if failure.value in LOST:
                raise
            return None
        return empty

    def _open(self, index: int) -> Device:
        device = Device(index, self._api.nvmlDeviceGetHandleByIndex(index))
        device.fixed = {
            "index": index,
            "uuid": _text(self._call(device, "nvmlDeviceGetUUID")) or "",
            "name": _text(self._call(device, "nvmlDeviceGetName")) or "",
        }
        self._devices[index] = device
        self._names[index] = dict(device.fixed)
        self._register(device)
        return device

    def _read(self, device: Device, slow_pcie: bool) -> "dict[str, Any]":
        now = time.monotonic()
        row = dict(device.fixed)
        usage = self._call(device, "nvmlDeviceGetUtilizationRates")
        row["util_pct"] = _within(usage and usage.gpu, 0, 100)
        row["mem_util_pct"] = _within(usage and usage.memory, 0, 100)
        row.update(self._memory(device))
        row["power_w"] = _within(_scaled(self._call(device, "nvmlDeviceGetPowerUsage"), 1000.0), 0, 3000)
        row["temp_c"] = _within(self._call(device, "nvmlDeviceGetTemperature", self._api.NVML_TEMPERATURE_GPU), 0, 150)
        row["sm_clock_mhz"] = _within(self._call(device, "nvmlDeviceGetClockInfo", self._api.NVML_CLOCK_SM), 0, 10000)
        row["throttle"] = self._throttle(device)
        row["processes"] = self._processes(device)
        if device.readings % SLOW_EVERY == 0:
            limit = self._call(device, "nvmlDeviceGetEnforcedPowerLimit")
            device.fixed["power_limit_w"] = _within(_scaled(limit, 1000.0), 1, 3000)
            device.fixed["mig"] = self._mig(device)
        row.update(device.fixed)
        row.update(self._traffic(device, now, slow_pcie))
        row["xids"] = device.xids[:]
        row["error"] = None
        device.readings += 1
        return row

    def _call(self, device: Device, name: str, *arguments: "Any") -> "Any":
        """One NVML call: None where this GPU or driver does not have it; raises NVMLError where the GPU is lost."""
        if (name, arguments) in device.missing:
            return None
        try:
            return getattr(self._api, name)(device.handle, *arguments)
        except self._api.NVMLError as failure:
            if failure.value in LOST:
                raise
            if failure.value in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                device.missing.add((name, arguments))
            return None

    def _memory(self, device: Device) -> "dict[str, float | None]":
        """Used memory without what the driver reserves (version 2 of the call; the first one counts it as used)."""
        info = self._call(device, "nvmlDeviceGetMemoryInfo", self._api.nvmlMemory_v2)
        if info is None:
            info = self._call(device, "nvmlDeviceGetMemoryInfo")
        total = _within(info and info.total / MIB, 1, 1 << 24)
        return {"mem_total_mib": total, "mem_used_mib": total and _within(info.used / MIB, 0, total)}

    def _throttle(self, device: Device) -> "list[str]":
        reasons = self._call(device, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._call(device, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return [name for bit, name in THROTTLE if (reasons or 0) & bit]

    def _processes(self, device: Device) -> "list[list[float | None]] | None":
        running = self._call(device, "nvmlDeviceGetComputeRunningProcesses_v3")
        if running is None:
            running = self._call(device, "nvmlDeviceGetComputeRunningProcesses_v2")
        if running is None:
            return None
        most = 1 << 24
        return [
            [process.pid, _within(_scaled(process.usedGpuMemory, MIB), 0, most)]
            for process in running
            if 0 < process.pid < 0xFFFFFFFF
        ]

    def _mig(self, device: Device) -> "list[str]":
        mode = self._call(device, "nvmlDeviceGetMigMode")
        if not mode or mode[0] != 1:
            return []
        names: "list[str]" = []
        for number in range(self._call(device, "nvmlDeviceGetMaxMigDeviceCount") or 0):
            part = self._call(device, "nvmlDeviceGetMigDeviceHandleByIndex", number)
            if part is not None:
                names.append(_text(self._api.nvmlDeviceGetUUID(part)) or "")
        return names

    def _traffic(self, device: Device, now: float, slow_pcie: bool) -> "dict[str, float | None]":
        """MiB/s over each counter's own interval; PCIe by the slow call where there is no counter for it."""
        asked = ((NVLINK_TX, ALL_LINKS), (NVLINK_RX, ALL_LINKS), (PCIE_TX, 0), (PCIE_RX, 0))
        values = self._call(device, "nvmlDeviceGetFieldValues", asked)
        link_tx, link_rx, pcie_tx, pcie_rx = [_field(value) for value in values or (None,) * 4]
        sent, received = device.rate("link_tx", link_tx, now), device.rate("link_rx", link_rx, now)
        found = {"nvlink_mib_s": None if sent is None or received is None else _rounded((sent + received) / 1024.0)}
        if pcie_tx is not None and pcie_rx is not None:
            found["pcie_tx_mib_s"] = _rounded(_scaled(device.rate("pcie_tx", pcie_tx, now), MIB))
            found["pcie_rx_mib_s"] = _rounded(_scaled(device.rate("pcie_rx", pcie_rx, now), MIB))
            return found
        if slow_pcie:
            for key, which in (("pcie_tx_mib_s", 0), ("pcie_rx_mib_s", 1)):
                kib_s = self._call(device, "nvmlDeviceGetPcieThroughput", which)
                device.fixed[key] = _rounded(_within(_scaled(kib_s, 1024.0), 0, 1 << 20))
        return found

    def _register(self, device: Device) -> None:
        """Ask to be told of Xid errors on this GPU; drivers that cannot are left alone."""
        try:
            if self._events is None:
                self._events = self._api.nvmlEventSetCreate()
            self._api.nvmlDeviceRegisterEvents(device.handle, self._api.nvmlEventTypeXidCriticalError, self._events)
        except self._api.NVMLError:
            pass

    def collect_xids(self) -> None:
        """Take all Xid events that wait; each GPU's row lists those seen since the start."""
        for _ in range(64):
            try:
                if self._events is None:
                    return
                event = self._api.nvmlEventSetWait(self._events, 0)
                uuid = _text(self._api.nvmlDeviceGetUUID(event.device))
            except self._api.NVMLError:
                return
            for device in self._devices.values():
                if device.fixed["uuid"] == uuid and event.eventData not in device.xids:
                    device.xids.append(int(event.eventData))


def _field(value: "Any") -> "float | None":
    """A field value of any of NVML's types; None unless it was read and is a counter that can be."""
    if value is None or value.nvmlReturn != 0:
        return None
    number = [value.value.dVal, value.value.uiVal, value.value.ulVal, value.value.ullVal, value.value.sllVal]
    if not 0 <= value.valueType < len(number):
        return None
    return _within(number[value.valueType], 0, (1 << 63) - 1)


def _within(value: "float | None", low: float, high: float) -> "float | None":
    """The value if a GPU can show it: drivers mark unknown ones with -1, 2^31-16, 2^63-1, 2^64-1 and the like."""
    return value if value is not None and low <= value <= high else None


def _scaled(value: "float | None", by: float) -> "float | None":
    return None if value is None else value / by


def _rounded(value: "float | None") -> "float | None":
    return None if value is None else round(value, 2)


def _text(value: "str | bytes | None") -> "str | None":
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def work(mark: "Mark", simulate: "dict[str, Any] | None") -> "Callable[[dict[str, Any]], bytes]":
    """The helper's side. A request names GPUs to leave out and the one whose PCIe may be read slowly; the answer is
    ``{"simulated", "error", "gpus": [row, ...]}``, and with ``health`` in the request what :func:`_health` finds."""
    from .wire import encode

    state: "dict[str, Any]" = {"reader": None, "simulated": False}

    def handle(request: "dict[str, Any]") -> bytes:
        mark("init", INIT_MAY_TAKE_S)
        try:
            if state["reader"] is None:
                state["reader"], state["simulated"] = _reader(simulate)
            rows = _rows(state["reader"], request, mark)
        except Unavailable as failure:
            state["reader"] = None
            return encode({"simulated": False, "error": str(failure), "gpus": None}).encode()
        answer = {"simulated": state["simulated"], "error": None, "gpus": rows}
        if request.get("health"):
            answer["health"] = _health(state["reader"], rows, mark)
        return encode(answer).encode()

    return handle


def _rows(reader: Reader, request: "dict[str, Any]", mark: "Mark") -> "list[dict[str, Any]]":
    mark("count", MAY_TAKE_S)
    rows: "list[dict[str, Any]]" = []
    for index in range(reader.count()):
        if index not in request["leave_out"]:
            mark(str(index), MAY_TAKE_S)
            rows.append(reader.row(index, index == request["pcie"]))
    mark("xids", MAY_TAKE_S)
    reader.collect_xids()
    return rows


def _health(reader: Reader, rows: "list[dict[str, Any]]", mark: "Mark") -> "dict[str, Any]":
    """``{"driver", "cuda", "gpus": {index: see gpuhealth.health}}``, without the GPUs that cannot be read."""
    from .gpuhealth import health, system

    answer = system(reader)
    answer["gpus"] = {}
    for row in rows:
        mark(HEALTH + str(row["index"]), MAY_TAKE_S)
        if not row["error"]:
            try:
                answer["gpus"][str(row["index"])] = health(reader, row["index"])
            except Exception:  # lost just now, or a driver that answers nonsense: the others are asked all the same
                continue
    return answer


def _reader(simulate: "dict[str, Any] | None") -> "tuple[Reader, bool]":
    """The real driver wherever it answers; the simulation only where it was asked for and there is none."""
    try:
        return _driver(), False
    except Unavailable:
        if simulate is None:
            raise
    from .simulated import Simulated

    return Reader(Simulated(simulate)), True


def _driver() -> Reader:
    """Without the library, say so before compiling 8000 lines of ``pynvml`` to learn it."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        raise Unavailable(INIT[12]) from None
    import pynvml  # pyright: ignore[reportMissingTypeStubs]

    return Reader(pynvml)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .helper import Mark
