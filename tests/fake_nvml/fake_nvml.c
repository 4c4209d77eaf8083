/* A stand-in for NVIDIA's libnvidia-ml.so.1, so that the real pynvml can be
 * driven through drivers that nobody has at hand.
 *
 * A text file, named by FAKE_NVML_STATE and read again at every call, says how
 * the driver behaves; one line each:
 *
 *   gpus COUNT
 *   name GPU TEXT                the rest of the line, with \e for ESC
 *   set GPU VALUE NUMBER         see value_of()
 *   process GPU PID MIB [graphics]
 *                                a process on it, that computes or draws; a MIB
 *                                of -1 is memory that the driver does not know
 *   instance GPU PID MIB [NUMBER]
 *                                one that computes on an instance of a MIG GPU
 *   xid GPU CODE                 an error of the driver, told to who listens by then
 *   answer FUNCTION GPU CODE     return this nvmlReturn_t; GPU may be *
 *   hang FUNCTION                never return
 *   crash FUNCTION               die of SIGSEGV
 *
 * FAKE_NVML_CALLS names a file that every call is noted in: function and GPU.
 * A handle that is null, or from before the last nvmlShutdown, ends the process
 * with SIGABRT: a real driver would crash, or worse, answer.
 *
 * Signatures and struct layouts are those of the public NVML API as
 * nvidia-ml-py's pynvml.py calls it.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    ARGUMENT_VERSION_MISMATCH = 25
};

enum { MOST_GPUS = 16, MOST_INSTANCES = 8, GENERATIONS = 256, NO_GPU = -2 };

typedef int nvmlReturn_t;
typedef struct {
    int index;
    unsigned generation;
    int instance; /* from 1 on; 0 of a whole GPU */
} * nvmlDevice_t;

static struct {
    int index;
    unsigned generation;
    int instance;
} devices[GENERATIONS][MOST_GPUS], instances[GENERATIONS][MOST_GPUS][MOST_INSTANCES];

static unsigned generation = 1;
static int users = 0;

/* ---- the state file ---- */

typedef int (*line_reader)(const char *line, void *wanted);

static int each_line(line_reader read_line, void *wanted)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    int found = 0;
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        found = read_line(line, wanted);
    }
    fclose(file);
    return found;
}

struct behaviour {
    const char *function;
    int gpu;
    nvmlReturn_t code;
};

static int read_behaviour(const char *line, void *wanted)
{
    struct behaviour *behaviour = wanted;
    char function[128], gpu[16];
    int code;
    if (sscanf(line, "hang %127s", function) == 1 && !strcmp(function, behaviour->function))
        for (;;)
            pause();
    if (sscanf(line, "crash %127s", function) == 1 && !strcmp(function, behaviour->function))
        raise(SIGSEGV);
    if (sscanf(line, "answer %127s %15s %d", function, gpu, &code) != 3)
        return 0;
    if (strcmp(function, "*") && strcmp(function, behaviour->function))
        return 0;
    if (strcmp(gpu, "*") && (behaviour->gpu == NO_GPU || atoi(gpu) != behaviour->gpu))
        return 0;
    behaviour->code = code;
    return 1;
}

struct value {
    int gpu;
    const char *name;
    unsigned long long number;
};

static int read_value(const char *line, void *wanted)
{
    struct value *value = wanted;
    int gpu;
    char name[64];
    unsigned long long number;
    if (sscanf(line, "set %d %63s %llu", &gpu, name, &number) != 3)
        return 0;
    if (gpu != value->gpu || strcmp(name, value->name))
        return 0;
    value->number = number;
    return 1;
}

static int read_count(const char *line, void *wanted)
{
    return sscanf(line, "gpus %d", (int *)wanted) == 1;
}

struct name {
    int gpu;
    char *text;
    unsigned length;
};

static int read_name(const char *line, void *wanted)
{
    struct name *name = wanted;
    int gpu, start = 0;
    unsigned written = 0;
    if (sscanf(line, "name %d %n", &gpu, &start) != 1 || !start || gpu != name->gpu)
        return 0;
    for (line += start; *line && written + 1 < name->length; line++) {
        int escape = line[0] == '\\' && line[1] == 'e';
        name->text[written++] = escape ? '\033' : *line;
        line += escape;
    }
    name->text[written] = 0;
    return 1;
}

static int gpu_count(void)
{
    int count = 1;
    each_line(read_count, &count);
    return count > MOST_GPUS ? MOST_GPUS : count;
}

/* A healthy GPU's values, each GPU's a little different. */
static unsigned long long value_of(int gpu, const char *name)
{
    static const struct {
        const char *name;
        unsigned long long first, step;
    } healthy[] = {
        {"utilization_pct", 90, 1},       {"memory_total_mib", 81920, 0},
        {"memory_used_mib", 40000, 100},  {"memory_reserved_mib", 600, 0},
        {"power_mw", 300500, 10000},      {"power_limit_mw", 700000, 0},
        {"temperature_c", 60, 1},         {"sm_mhz", 1700, 15},
        {"memory_mhz", 2619, 0},          {"throttle", 0, 0},
        {"mig_most_instances", 7, 0},     {"uuid", 0, 1},
        {"energy_mj", 5000000, 1000000},  {"slowdown_c", 92, 0},
        {"sm_max_mhz", 1980, 0},          {"memory_max_mhz", 2619, 0},
        {"pcie_max_generation", 5, 0},    {"pcie_max_width", 16, 0},
        {"pcie_generation", 4, 0},        {"pcie_width", 8, 0},
        {"pcie_receive_kib_s", 2048, 0},  {"pcie_send_kib_s", 1024, 0},
        {"fan_pct", 35, 0},               {"ecc_corrected", 3, 0},
        {"ecc_uncorrected", 0, 0},        {"encoder_pct", 7, 0},
        {"decoder_pct", 8, 0},            {"mig", 0, 0},
        {"nvlinks", 4, 0},                {"nvlinks_down", 1, 0},
        {"nvlink_receive_kib", 0, 0},     {"nvlink_send_kib", 0, 0},
        {"memory_busy_pct", 45, 1},       {"gpm", 1, 0},
        {"sm_active_permille", 612, 1},   {"sm_occupancy_permille", 384, 0},
        {"tensor_permille", 225, 0},      {"dram_permille", 487, 0},
        {"mig_instances", 1, 0},          {"mig_memory_total_mib", 9856, 0},
        {"mig_memory_used_mib", 5120, 0}, {"virtualization", 0, 0},
        {"mig_busy_permille", 334, 0},
    };
    struct value value = {gpu, name, 0};
    if (each_line(read_value, &value))
        return value.number;
    for (unsigned i = 0; i < sizeof healthy / sizeof *healthy; i++)
        if (!strcmp(healthy[i].name, name))
            return healthy[i].first + gpu * healthy[i].step;
    abort();
}

/* ---- what every call does first ---- */

static nvmlReturn_t enter(const char *function, int gpu)
{
    struct behaviour behaviour = {function, gpu, SUCCESS};
    const char *path = getenv("FAKE_NVML_CALLS");
    FILE *calls = path ? fopen(path, "a") : NULL;
    if (calls) {
        if (gpu == NO_GPU)
            fprintf(calls, "%s\n", function);
        else
            fprintf(calls, "%s %d\n", function, gpu);
        fclose(calls);
    }
    each_line(read_behaviour, &behaviour);
    return behaviour.code;
}

static nvmlReturn_t enter_system(const char *function)
{
    nvmlReturn_t code = enter(function, NO_GPU);
    return code != SUCCESS || users > 0 ? code : UNINITIALIZED;
}

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device)
{
    if (!device || device->generation != generation) {
        fprintf(stderr, "fake NVML: %s was given a handle that is not valid\n", function);
        abort();
    }
    nvmlReturn_t code = enter(function, device->index);
    return code != SUCCESS || users > 0 ? code : UNINITIALIZED;
}

#define SYSTEM_CALL()                                  \
    do {                                               \
        nvmlReturn_t code = enter_system(__func__);    \
        if (code != SUCCESS)                           \
            return code;                               \
    } while (0)

#define DEVICE_CALL(device)                                  \
    do {                                                     \
        nvmlReturn_t code = enter_device(__func__, device);  \
        if (code != SUCCESS)                                 \
            return code;                                     \
    } while (0)

static nvmlReturn_t text(char *out, unsigned length, const char *reported)
{
    if (strlen(reported) + 1 > length)
        return INSUFFICIENT_SIZE;
    strcpy(out, reported);
    return SUCCESS;
}

static unsigned long long mib(int gpu, const char *name)
{
    unsigned long long value = value_of(gpu, name);
    return value == ~0ull ? value : value << 20;
}

/* ---- the library ---- */

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    nvmlReturn_t code = enter(__func__, NO_GPU);
    (void)flags;
    if (code == SUCCESS)
        users++;
    return code;
}

nvmlReturn_t nvmlShutdown(void)
{
    SYSTEM_CALL();
    users--;
    generation++;
    return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    static char words[64];
    snprintf(words, sizeof words, "Fake Error %d", code);
    return words;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    SYSTEM_CALL();
    return text(version, length, "580.65.06");
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    SYSTEM_CALL();
    *version = 13000;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    SYSTEM_CALL();
    *count = gpu_count();
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    nvmlReturn_t code = enter(__func__, index);
    if (code != SUCCESS)
        return code;
    if (!users)
        return UNINITIALIZED;
    if (index >= (unsigned)gpu_count())
        return INVALID_ARGUMENT;
    nvmlDevice_t slot = (nvmlDevice_t)&devices[generation % GENERATIONS][index];
    slot->index = index;
    slot->generation = generation;
    *device = slot;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    DEVICE_CALL(device);
    struct name wanted = {device->index, name, length};
    if (device->instance)
        return text(name, length, "NVIDIA Fake 100 MIG 1g.10gb");
    if (each_line(read_name, &wanted))
        return SUCCESS;
    return text(name, length, "NVIDIA Fake 100");
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    char reported[64];
    DEVICE_CALL(device);
    snprintf(reported, sizeof reported, "GPU-00000000-0000-0000-0000-%012llu",
             value_of(device->index, "uuid"));
    return text(uuid, length, reported);
}

struct memory {
    unsigned long long total, free, used;
};

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *memory)
{
    DEVICE_CALL(device);
    memory->total = mib(device->index, "memory_total_mib");
    memory->used = mib(device->index, "memory_used_mib") + mib(device->index, "memory_reserved_mib");
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct memory_v2 *memory)
{
    DEVICE_CALL(device);
    if (memory->version != (sizeof *memory | 2u << 24))
        return ARGUMENT_VERSION_MISMATCH;
    if (device->instance) {
        memory->total = mib(device->index, "mig_memory_total_mib");
        memory->used = mib(device->index, "mig_memory_used_mib");
        memory->reserved = 0;
        memory->free = memory->total - memory->used;
        return SUCCESS;
    }
    memory->total = mib(device->index, "memory_total_mib");
    memory->reserved = mib(device->index, "memory_reserved_mib");
    memory->used = mib(device->index, "memory_used_mib");
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

struct utilization {
    unsigned gpu, memory;
};

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *utilization)
{
    DEVICE_CALL(device);
    utilization->gpu = value_of(device->index, "utilization_pct");
    utilization->memory = value_of(device->index, "memory_busy_pct");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts)
{
    DEVICE_CALL(device);
    *milliwatts = value_of(device->index, "power_mw");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long *millijoules)
{
    DEVICE_CALL(device);
    *millijoules = value_of(device->index, "energy_mj");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts)
{
    DEVICE_CALL(device);
    *milliwatts = value_of(device->index, "power_limit_mw");
    return SUCCESS;
}

struct temperature {
    unsigned version, sensor;
    int celsius;
};

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, struct temperature *temperature)
{
    DEVICE_CALL(device);
    if (temperature->version != (sizeof *temperature | 1u << 24))
        return ARGUMENT_VERSION_MISMATCH;
    temperature->celsius = value_of(device->index, "temperature_c");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *celsius)
{
    DEVICE_CALL(device);
    (void)sensor;
    *celsius = value_of(device->index, "temperature_c");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    DEVICE_CALL(device);
    *mhz = value_of(device->index, clock == 2 ? "memory_mhz" : "sm_mhz");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    DEVICE_CALL(device);
    *reasons = value_of(device->index, "throttle");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long *reasons)
{
    DEVICE_CALL(device);
    *reasons = value_of(device->index, "throttle");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold,
                                               unsigned *celsius)
{
    DEVICE_CALL(device);
    if (threshold != 1)
        return NOT_SUPPORTED;
    *celsius = value_of(device->index, "slowdown_c");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    DEVICE_CALL(device);
    *mhz = value_of(device->index, clock == 2 ? "memory_max_mhz" : "sm_max_mhz");
    return SUCCESS;
}

struct pci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci *pci)
{
    DEVICE_CALL(device);
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x0a + device->index;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

/* A call that reports one number of a GPU. */
#define NUMBER(function, name)                                           \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *number)         \
    {                                                                    \
        DEVICE_CALL(device);                                             \
        *number = value_of(device->index, name);                         \
        return SUCCESS;                                                  \
    }

NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetFanSpeed, "fan_pct")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_most_instances")

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned direction,
                                         unsigned *kib_s)
{
    DEVICE_CALL(device);
    *kib_s = value_of(device->index, direction ? "pcie_receive_kib_s" : "pcie_send_kib_s");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned kind, unsigned counter,
                                         unsigned long long *errors)
{
    DEVICE_CALL(device);
    if (counter != 0)
        return INVALID_ARGUMENT;
    *errors = value_of(device->index, kind ? "ecc_uncorrected" : "ecc_corrected");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *pct,
                                             unsigned *period_us)
{
    DEVICE_CALL(device);
    *pct = value_of(device->index, "encoder_pct");
    *period_us = 167000;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *pct,
                                             unsigned *period_us)
{
    DEVICE_CALL(device);
    *pct = value_of(device->index, "decoder_pct");
    *period_us = 167000;
    return SUCCESS;
}

/* ---- NVLink: the first `nvlinks_down` of a GPU's `nvlinks` carry nothing ---- */

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *is_active)
{
    DEVICE_CALL(device);
    if (link >= value_of(device->index, "nvlinks"))
        return link ? INVALID_ARGUMENT : NOT_SUPPORTED;
    *is_active = link >= value_of(device->index, "nvlinks_down");
    return SUCCESS;
}

struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    nvmlReturn_t code;
    unsigned long long number;
};

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct field_value *values)
{
    enum { NVLINK_SENT = 138, NVLINK_RECEIVED = 139 };
    DEVICE_CALL(device);
    for (int i = 0; i < count; i++) {
        int is_known = values[i].field == NVLINK_SENT || values[i].field == NVLINK_RECEIVED;
        values[i].code = is_known && values[i].scope == ~0u ? SUCCESS : NOT_SUPPORTED;
        if (is_known)
            values[i].number =
                value_of(device->index, values[i].field == NVLINK_SENT ? "nvlink_send_kib"
                                                                       : "nvlink_receive_kib");
    }
    return SUCCESS;
}

/* ---- GPM: what counts is on between two samples ---- */

struct sample {
    int is_free, gpu;
    unsigned gpu_instance; /* 0 of a whole GPU */
    unsigned taken;
};

static unsigned samples_taken = 0;

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, unsigned support[2])
{
    DEVICE_CALL(device);
    if (support[0] != 1)
        return ARGUMENT_VERSION_MISMATCH;
    support[1] = value_of(device->index, "gpm");
    return SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(struct sample **sample)
{
    SYSTEM_CALL();
    *sample = calloc(1, sizeof **sample);
    return SUCCESS;
}

static void check_sample(const struct sample *sample)
{
    if (sample && !sample->is_free)
        return;
    fprintf(stderr, "fake NVML: a sample that is not valid\n");
    abort();
}

/* Never really freed, so that whoever uses it again is found out. */
nvmlReturn_t nvmlGpmSampleFree(struct sample *sample)
{
    SYSTEM_CALL();
    check_sample(sample);
    sample->is_free = 1;
    return SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, struct sample *sample)
{
    DEVICE_CALL(device);
    check_sample(sample);
    sample->gpu = device->index;
    sample->taken = ++samples_taken;
    return SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpu_instance,
                                 struct sample *sample)
{
    DEVICE_CALL(device);
    check_sample(sample);
    if (!value_of(device->index, "mig"))
        return INVALID_ARGUMENT;
    sample->gpu = device->index;
    sample->gpu_instance = gpu_instance;
    sample->taken = ++samples_taken;
    return SUCCESS;
}

struct metric {
    unsigned id;
    nvmlReturn_t code;
    double value;
    const char *names[3];
};

struct metrics {
    unsigned version, count;
    struct sample *first, *second;
    struct metric metrics[];
};

nvmlReturn_t nvmlGpmMetricsGet(struct metrics *wanted)
{
    static const char *const names[] = {[1] = "mig_busy_permille",
                                        [2] = "sm_active_permille",
                                        [3] = "sm_occupancy_permille",
                                        [5] = "tensor_permille",
                                        [10] = "dram_permille"};
    SYSTEM_CALL();
    check_sample(wanted->first);
    check_sample(wanted->second);
    if (wanted->version != 1)
        return ARGUMENT_VERSION_MISMATCH;
    if (!wanted->first->taken || wanted->first->taken >= wanted->second->taken ||
        wanted->first->gpu != wanted->second->gpu ||
        wanted->first->gpu_instance != wanted->second->gpu_instance)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < wanted->count; i++) {
        struct metric *metric = &wanted->metrics[i];
        int is_known = metric->id < sizeof names / sizeof *names && names[metric->id];
        metric->code = is_known ? SUCCESS : NOT_SUPPORTED;
        /* Each instance is a little busier than the one before. */
        if (is_known)
            metric->value = value_of(wanted->second->gpu, names[metric->id]) / 10.0 +
                            wanted->second->gpu_instance;
    }
    return SUCCESS;
}

/* ---- events: Xid errors, those that come after somebody listens ---- */

struct event_set {
    int gpu;
    int told;
};

struct event {
    nvmlDevice_t device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct xids {
    int gpu, skipped;
    unsigned long long code;
};

static int read_xid(const char *line, void *wanted)
{
    struct xids *xids = wanted;
    int gpu;
    if (sscanf(line, "xid %d %llu", &gpu, &xids->code) != 2 || gpu != xids->gpu)
        return 0;
    return xids->skipped-- == 0;
}

nvmlReturn_t nvmlEventSetCreate(struct event_set **set)
{
    SYSTEM_CALL();
    *set = calloc(1, sizeof **set);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      struct event_set *set)
{
    enum { XID = 8 };
    struct xids before = {device->index, -1, 0};
    DEVICE_CALL(device);
    if (types != XID)
        return INVALID_ARGUMENT;
    set->gpu = device->index;
    each_line(read_xid, &before);
    set->told = -1 - before.skipped;
    return SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(struct event_set *set, struct event *event, unsigned timeout_ms)
{
    struct xids next = {set->gpu, set->told, 0};
    SYSTEM_CALL();
    (void)timeout_ms;
    if (!each_line(read_xid, &next))
        return TIMEOUT;
    set->told++;
    *event = (struct event){(nvmlDevice_t)&devices[generation % GENERATIONS][set->gpu], 8,
                            next.code, ~0u, ~0u};
    return SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(struct event_set *set)
{
    SYSTEM_CALL();
    free(set);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned long long *mode)
{
    DEVICE_CALL(device);
    *mode = value_of(device->index, "virtualization");
    return SUCCESS;
}

/* ---- MIG: `mig_instances`, from index 1 on ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    DEVICE_CALL(device);
    *current = *pending = value_of(device->index, "mig");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                 nvmlDevice_t *instance)
{
    DEVICE_CALL(device);
    if (index < 1 || index > value_of(device->index, "mig_instances") || index >= MOST_INSTANCES)
        return NOT_FOUND;
    nvmlDevice_t slot = (nvmlDevice_t)&instances[generation % GENERATIONS][device->index][index];
    slot->index = device->index;
    slot->generation = generation;
    slot->instance = index;
    *instance = slot;
    return SUCCESS;
}

enum { FIRST_GPU_INSTANCE = 7 };

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
    DEVICE_CALL(device);
    *id = FIRST_GPU_INSTANCE - 1 + device->instance;
    return device->instance ? SUCCESS : INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id)
{
    DEVICE_CALL(device);
    *id = 0;
    return device->instance ? SUCCESS : INVALID_ARGUMENT;
}

/* ---- processes ---- */

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct processes {
    const char *word;
    int gpu, instance, draws;
    unsigned found, room;
    struct process *list;
};

static int read_process(const char *line, void *wanted)
{
    struct processes *processes = wanted;
    char word[16], kind[16] = "";
    int gpu;
    unsigned pid;
    long long mib;
    if (sscanf(line, "%15s %d %u %lld %15s", word, &gpu, &pid, &mib, kind) < 4)
        return 0;
    if (strcmp(word, processes->word) || gpu != processes->gpu ||
        processes->draws != !strcmp(kind, "graphics"))
        return 0;
    if (processes->instance && processes->instance != (*kind ? atoi(kind) : 1))
        return 0;
    if (processes->found < processes->room)
        processes->list[processes->found] =
            (struct process){pid, mib < 0 ? ~0ull : (unsigned long long)mib << 20,
                             processes->instance ? FIRST_GPU_INSTANCE - 1 + processes->instance : 0,
                             0};
    processes->found++;
    return 0;
}

static nvmlReturn_t list(const char *word, nvmlDevice_t device, int draws, unsigned *count,
                         struct process *found)
{
    struct processes processes = {word, device->index, device->instance, draws, 0, *count, found};
    each_line(read_process, &processes);
    *count = processes.found;
    return processes.found > processes.room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function, draws)                                                       \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *count, struct process *processes) \
    {                                                                                    \
        if (device && device->instance)                                                  \
            return list("instance", device, draws, count, processes);                    \
        DEVICE_CALL(device);                                                             \
        return list("process", device, draws, count, processes);                         \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 0)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 0)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 1)
