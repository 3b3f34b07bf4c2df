/* A stand-in for NVIDIA's libnvidia-ml.so.1: the functions that the agent calls, with numbers from a text file.
 *
 * The file named by GPUTOP_STANDIN has one "key value" a line; it is read at each call, so a test can change what the
 * GPUs show while they are watched. Keys without a GPU: count, init (return code of nvmlInit). Keys of GPU K, written
 * K.key: util, mem_util, used and total (bytes), power and limit (mW), temp, clock, throttle (bit mask), pid and
 * pid_used (one compute process; pid2 and pid2_used a second), nvlink_tx and nvlink_rx (KiB), pcie_tx and pcie_rx
 * (bytes; without them the counter fields are not supported), mig (number of instances), xid (an event that waits).
 * What a health check reads: remap_pending, remap_failed, pages_pending, ecc (errors), recovery (action), persistence (1),
 * compute_mode, mig_pending, fabric (state, 3) and fabric_status, links (bit mask of active ones of 18), driver (text);
 * hang_health 1: the call for persistence never returns.
 * K.gpm_N: what GPM's metric N shows over two samples; without gpm (1) the GPU has no GPM counters.
 * K.lost 1: every call answers GPU_IS_LOST. K.hang 1: the utilisation call never returns. K.ret.NAME: the return code
 * of one call, NAME being one of the keys above.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };

typedef struct { int index; int mig; } Device;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } Value;
typedef struct { uint32_t id, scope; int64_t at, latency; uint32_t type; int32_t ret; Value value; } Field;
typedef struct { Device *device; unsigned long long type, data; unsigned gi, ci; } Event;

static Device devices[64];
static Device instances[64][8];

static int find(const char *key, char *value, size_t size) {
    const char *path = getenv("GPUTOP_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *blank = strchr(line, ' ');
        if (!blank) continue;
        *blank = 0;
        if (strcmp(line, key)) continue;
        snprintf(value, size, "%s", blank + 1);
        value[strcspn(value, "\n")] = 0;
        found = 1;
    }
    if (file) fclose(file);
    return found;
}

static int number(int gpu, const char *name, unsigned long long *result) {
    char key[128], value[128];
    if (gpu < 0) snprintf(key, sizeof key, "%s", name);
    else snprintf(key, sizeof key, "%d.%s", gpu, name);
    if (!find(key, value, sizeof value)) return 0;
    *result = strtoull(value, NULL, 0); /* accepts -1 */
    return 1;
}

static unsigned long long get(int gpu, const char *name, unsigned long long otherwise) {
    unsigned long long value = otherwise;
    number(gpu, name, &value);
    return value;
}

/* The return code that the call reading this key has to give. */
static int code(Device *device, const char *name) {
    char key[64];
    if (get(device->index, "lost", 0)) return GPU_IS_LOST;
    snprintf(key, sizeof key, "ret.%s", name);
    return (int)get(device->index, key, SUCCESS);
}

static int unsigned_of(Device *device, const char *name, unsigned otherwise, unsigned *result) {
    int ret = code(device, name);
    if (ret == SUCCESS) *result = (unsigned)get(device->index, name, otherwise);
    return ret;
}

int nvmlInitWithFlags(unsigned flags) { return (int)get(-1, "init", SUCCESS); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int ret) { return ret == GPU_IS_LOST ? "GPU is lost" : "Stand-in error"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)get(-1, "count", 8);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    devices[index].index = (int)index;
    *device = &devices[index];
    return code(*device, "handle");
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned size) {
    if (device->mig) snprintf(uuid, size, "MIG-%08x-0000-4000-8000-%012x", device->mig, device->index);
    else snprintf(uuid, size, "GPU-57a4d100-0000-4000-8000-%012x", device->index);
    return code(device, "uuid");
}

int nvmlDeviceGetName(Device *device, char *name, unsigned size) {
    snprintf(name, size, "NVIDIA H200");
    return code(device, "name");
}

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *usage) {
    int ret = code(device, "util");
    if (get(device->index, "hang", 0)) for (;;) pause();
    usage->gpu = (unsigned)get(device->index, "util", 0);
    usage->memory = (unsigned)get(device->index, "mem_util", 0);
    return ret;
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    memory->total = get(device->index, "total", 143771ULL << 20);
    memory->used = get(device->index, "used", 1ULL << 20) + (560ULL << 20); /* version 1 counts what is reserved */
    return code(device, "used");
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) {
    memory->total = get(device->index, "total", 143771ULL << 20);
    memory->used = get(device->index, "used", 1ULL << 20);
    memory->reserved = 560ULL << 20;
    return code(device, "used_v2") ? code(device, "used_v2") : code(device, "used");
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *mw) { return unsigned_of(device, "power", 76000, mw); }
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *mw) { return unsigned_of(device, "limit", 700000, mw); }
int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *c) { return unsigned_of(device, "temp", 31, c); }
int nvmlDeviceGetClockInfo(Device *device, int type, unsigned *mhz) { return unsigned_of(device, "clock", 345, mhz); }

int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *reasons) {
    *reasons = get(device->index, "throttle", 1);
    return code(device, "throttle");
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    unsigned long long pids[2];
    int found = number(device->index, "pid", &pids[0]), room = (int)*count;
    int ret = code(device, "pid");
    if (found) found += number(device->index, "pid2", &pids[1]);
    if (ret) return ret;
    *count = (unsigned)found;
    if (found > room) return INSUFFICIENT_SIZE;
    for (int i = 0; i < found; i++) {
        processes[i].pid = (unsigned)pids[i];
        processes[i].used = get(device->index, i ? "pid2_used" : "pid_used", -1ULL);
    }
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        const char *name = fields[i].id == 138 && fields[i].scope == 0xffffffffu ? "nvlink_tx"
                         : fields[i].id == 139 && fields[i].scope == 0xffffffffu ? "nvlink_rx"
                         : fields[i].id == 197 ? "pcie_tx" : fields[i].id == 198 ? "pcie_rx"
                         : fields[i].id == 230 ? "recovery" : "";
        fields[i].type = 3;
        fields[i].ret = number(device->index, name, &fields[i].value.ull) ? SUCCESS : NOT_SUPPORTED;
    }
    return code(device, "fields");
}

/* The real call samples for 20 ms. */
int nvmlDeviceGetPcieThroughput(Device *device, int counter, unsigned *kib_s) {
    usleep(20000);
    return unsigned_of(device, counter ? "pcie_slow_rx" : "pcie_slow_tx", 0, kib_s);
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    *current = get(device->index, "mig", 0) > 0;
    *pending = (unsigned)get(device->index, "mig_pending", *current);
    return code(device, "mig");
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **part) {
    if (index >= get(device->index, "mig", 0)) return NOT_FOUND;
    *part = &instances[device->index][index];
    (*part)->index = device->index;
    (*part)->mig = (int)index + 1;
    return SUCCESS;
}

static int reported[64];
static unsigned long long registered;

int nvmlEventSetCreate(void **set) {
    *set = reported;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, void *set) {
    registered |= 1ULL << device->index;
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    for (int index = 0; index < 64; index++) {
        unsigned long long xid = get(index, "xid", 0);
        if (!xid || reported[index] || !(registered >> index & 1)) continue;
        reported[index] = 1;
        event->device = &devices[index];
        event->type = 8;
        event->data = xid;
        return SUCCESS;
    }
    return TIMEOUT;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} Pci;
typedef struct { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; } Fabric;

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    char value[128];
    snprintf(version, size, "%s", find("driver", value, sizeof value) ? value : "570.86.15");
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    *version = 12080;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned)device->index;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return code(device, "pci");
}

int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    *corrected = 0;
    *uncorrected = (unsigned)get(device->index, "remapped", 0);
    *pending = (unsigned)get(device->index, "remap_pending", 0);
    *failed = (unsigned)get(device->index, "remap_failed", 0);
    return code(device, "remap");
}

int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter, unsigned long long *count) {
    *count = type == 1 && counter == 0 ? get(device->index, "ecc", 0) : 0;
    return code(device, "ecc");
}

int nvmlDeviceGetRetiredPagesPendingStatus(Device *device, unsigned *is) {
    return unsigned_of(device, "pages_pending", 0, is);
}
int nvmlDeviceGetPersistenceMode(Device *device, unsigned *mode) {
    if (get(device->index, "hang_health", 0)) for (;;) pause();
    return unsigned_of(device, "persistence", 1, mode);
}
int nvmlDeviceGetComputeMode(Device *device, unsigned *mode) { return unsigned_of(device, "compute_mode", 0, mode); }

int nvmlDeviceGetGpuFabricInfo(Device *device, Fabric *fabric) {
    fabric->state = (unsigned char)get(device->index, "fabric", 3);
    fabric->status = (int)get(device->index, "fabric_status", SUCCESS);
    return code(device, "fabric");
}

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active) {
    *active = (unsigned)(get(device->index, "links", 0x3ffff) >> link & 1);
    return code(device, "links");
}

/* GPM: a sample is the GPU that it was taken of; metrics come from the keys gpm_ID. */
typedef struct { unsigned id; int ret; double value; char *names[3]; } Metric;
typedef struct { unsigned version, count; Device **first, **second; Metric metrics[477]; } Metrics;
typedef struct { unsigned version, supported; } GpmSupport;

int nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *support) {
    support->supported = (unsigned)get(device->index, "gpm", 0);
    return code(device, "gpm");
}
int nvmlGpmSampleAlloc(Device ***sample) { return (*sample = calloc(1, sizeof **sample)) ? SUCCESS : 20; }
int nvmlGpmSampleFree(Device **sample) { free(sample); return SUCCESS; }
int nvmlGpmSampleGet(Device *device, Device **sample) { *sample = device; return code(device, "gpm_sample"); }
int nvmlGpmMetricsGet(Metrics *asked) {
    if (asked->version != 1 || !asked->first || !asked->second || *asked->first != *asked->second) return 2;
    for (unsigned n = 0; n < asked->count; n++) {
        char key[32], value[64];
        snprintf(key, sizeof key, "%d.gpm_%u", (*asked->first)->index, asked->metrics[n].id);
        asked->metrics[n].ret = find(key, value, sizeof value) ? SUCCESS : NOT_SUPPORTED;
        asked->metrics[n].value = asked->metrics[n].ret == SUCCESS ? strtod(value, NULL) : 0;
    }
    return SUCCESS;
}
