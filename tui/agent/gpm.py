"""GPM counters of Hopper and later: what a GPU's parts did over half a second. On request only: they are shared with
DCGM, which may be reading them for somebody else. Asked in a disposable process with its own NVML."""

import ctypes
import time

OVER_S = 0.5
"""Two samples at least 100 ms apart make a reading (nvml.h, ``nvmlGpmMetricsGet``)."""

NO_LIBRARY = "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)"
UNSUPPORTED = "this GPU or its driver has no GPM counters: they came with Hopper"

METRICS = (
    ("sm_util_pct", 2, 100.0),
    ("sm_occupancy_pct", 3, 100.0),
    ("tensor_pct", 5, 100.0),
    ("dram_pct", 10, 100.0),
    ("pcie_tx_mib_s", 20, 1e6),
    ("pcie_rx_mib_s", 21, 1e6),
    ("nvlink_rx_mib_s", 60, 1e7),
    ("nvlink_tx_mib_s", 61, 1e7),
)
"""(key, ``nvmlGpmMetricId_t``, the most that a GPU can show)"""


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"gpm": {index: {key of METRICS: number|null}|null}, "why": {index: sentence}, "over_s"}``; ``gpus`` asks for
    some only. Raises ValueError where no driver answers."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        raise ValueError(NO_LIBRARY) from None
    import pynvml  # pyright: ignore[reportMissingTypeStubs]

    api: "Any" = pynvml
    try:
        api.nvmlInit()
        indices = request.get("gpus") or range(api.nvmlDeviceGetCount())
    except api.NVMLError as failure:
        raise ValueError("the NVIDIA driver does not answer: %s" % failure) from None
    begun: "dict[int, tuple[Any, Any]]" = {}
    why: "dict[str, str]" = {}
    for index in map(int, indices):
        try:
            device = api.nvmlDeviceGetHandleByIndex(index)
            if not api.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
                raise ValueError(UNSUPPORTED)
            begun[index] = (device, _sample(api, device))
        except (api.NVMLError, ValueError) as failure:
            missing = getattr(failure, "value", None) in (3, 13)  # not supported; function not found
            why[str(index)] = UNSUPPORTED if missing else str(failure)
    time.sleep(OVER_S if begun else 0.0)
    found: "dict[str, dict[str, float | None] | None]" = {}
    for index, (device, first) in begun.items():
        try:
            found[str(index)] = _metrics(api, first, _sample(api, device))
        except api.NVMLError as failure:
            found[str(index)], why[str(index)] = None, str(failure)
    return {"gpm": found, "why": why, "over_s": OVER_S}


def _sample(api: "Any", device: "Any") -> "Any":
    return api.nvmlGpmSampleGet(device, api.nvmlGpmSampleAlloc())


def _metrics(api: "Any", first: "Any", second: "Any") -> "dict[str, float | None]":
    asked = api.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics = api.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
    asked.sample1, asked.sample2 = first, second
    for number, (_, metric, _most) in enumerate(METRICS):
        asked.metrics[number].metricId = metric
    api.nvmlGpmMetricsGet(asked)
    values: "dict[str, float | None]" = {}
    for number, (key, _, most) in enumerate(METRICS):
        told = asked.metrics[number]
        known = told.nvmlReturn == 0 and 0.0 <= told.value <= most
        values[key] = round(told.value, 2) if known else None
    return values


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
