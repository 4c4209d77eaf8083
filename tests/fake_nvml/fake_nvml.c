/* A stand-in for NVIDIA's libnvidia-ml.so.1, so that the real pynvml can be
 * driven through drivers that nobody has at hand.
 *
 * A text file, named by FAKE_NVML_STATE and read again at every call, says how
 * the driver behaves; one line each:
 *
 *   gpus COUNT
 *   name GPU TEXT                the rest of the line, with \e for ESC
 *   set GPU VALUE NUMBER         see value_of()
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
    INSUFFICIENT_SIZE = 7,
    ARGUMENT_VERSION_MISMATCH = 25
};

enum { MOST_GPUS = 16, GENERATIONS = 256, EVERY_GPU = -1, NO_GPU = -2 };

typedef int nvmlReturn_t;
typedef struct {
    int index;
    unsigned generation;
} * nvmlDevice_t;

static struct {
    int index;
    unsigned generation;
} devices[GENERATIONS][MOST_GPUS];

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
        {"processes", 0, 0},              {"uuid", 0, 1},
        {"energy_mj", 5000000, 1000000},
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

static nvmlReturn_t text(char *out, unsigned length, const char *told)
{
    if (strlen(told) + 1 > length)
        return INSUFFICIENT_SIZE;
    strcpy(out, told);
    return SUCCESS;
}

static unsigned long long mib(int gpu, const char *name)
{
    return value_of(gpu, name) << 20;
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
    if (each_line(read_name, &wanted))
        return SUCCESS;
    return text(name, length, "NVIDIA Fake 100");
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    char told[64];
    DEVICE_CALL(device);
    snprintf(told, sizeof told, "GPU-00000000-0000-0000-0000-%012llu",
             value_of(device->index, "uuid"));
    return text(uuid, length, told);
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
    utilization->memory = utilization->gpu / 2;
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

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     struct process *processes)
{
    DEVICE_CALL(device);
    unsigned room = *count;
    *count = value_of(device->index, "processes");
    if (*count > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++)
        processes[i] = (struct process){100000 + 1000 * device->index + i, 1ull << 30, 0, 0};
    return SUCCESS;
}
