"""What of a GPU would spoil a launch before it starts: read once on request, in the NVML helper, not each tick."""

UNCORRECTED, SINCE_DRIVER_LOAD = 1, 0
"""NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC (nvml.h)."""

RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: the driver's own advice; driver 570 and later."""

MOST_LINKS = 18
"""NVLink 3 has 12 of them, NVLink 4 and 5 have 18."""


def health(reader: "Reader", index: int) -> "dict[str, Any]":
    """Each value is None where this GPU or driver does not tell. Raises NVMLError where the GPU is lost.

    ``links`` lists each NVLink's state (1: active); ``fabric`` is state and status of ``nvmlGpuFabricInfo_t`` (state 0:
    not part of one, 1: not started, 2: in progress, 3: completed; status: an NVML return code); ``compute_mode`` and
    ``recovery`` are NVML's numbers; ``mig_pending`` is the mode after the next reset.
    """

    def ask(name: str, *arguments: object) -> "Any":
        return reader.ask(index, name, *arguments)

    rows = ask("nvmlDeviceGetRemappedRows") or (None,) * 4
    mig = ask("nvmlDeviceGetMigMode") or (None, None)
    pci = ask("nvmlDeviceGetPciInfo")
    fields = ask("nvmlDeviceGetFieldValues", (RECOVERY_ACTION,)) or (None,)
    return {
        "bus": pci and _text(pci.busId),
        "remapped": rows[1],
        "remap_pending": rows[2],
        "remap_failed": rows[3],
        "pages_pending": ask("nvmlDeviceGetRetiredPagesPendingStatus"),
        "ecc_errors": ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, SINCE_DRIVER_LOAD),
        "persistence": ask("nvmlDeviceGetPersistenceMode"),
        "compute_mode": ask("nvmlDeviceGetComputeMode"),
        "mig_mode": mig[0],
        "mig_pending": mig[1],
        "recovery": _recovery(fields[0]),
        "fabric": _fabric(reader, index),
        "links": _links(ask),
    }


def system(reader: "Reader") -> "dict[str, Any]":
    """The driver's version, and the newest CUDA that it serves (12080 is 12.8)."""
    return {
        "driver": _text(reader.ask_driver("nvmlSystemGetDriverVersion")),
        "cuda": reader.ask_driver("nvmlSystemGetCudaDriverVersion"),
    }


def _recovery(value: "Any") -> "int | None":
    return int(value.value.uiVal) if value is not None and value.nvmlReturn == 0 else None


def _fabric(reader: "Reader", index: int) -> "list[int] | None":
    info = reader.filled(index, "nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t")
    return None if info is None else [int(info.state) & 0xFF, int(info.status)]


def _links(ask: "Callable[..., Any]") -> "list[int] | None":
    """Up to the first link that the GPU does not have."""
    states: "list[int]" = []
    for link in range(MOST_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", link)
        if state is None:
            break
        states.append(state)
    return states or None


def _text(value: "str | bytes | None") -> "str | None":
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .nvml import Reader
