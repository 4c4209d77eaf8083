"""A module in pynvml's place, whose answers a test writes down."""

from __future__ import annotations

from types import SimpleNamespace

INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 2, 3, 6


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"Code {value}")
        self.value = value


def process(pid, mib, instance=0):
    used = None if mib is None else mib * 2**20
    return SimpleNamespace(pid=pid, usedGpuMemory=used, gpuInstanceId=instance, computeInstanceId=0)


# What a call is named in `errors` and `calls`, by its arguments, and what is answered of a GPU.
ANSWERS = {
    "nvmlDeviceGetUUID": ("uuid", lambda nvml, gpu: gpu),
    "nvmlDeviceGetName": ("name", lambda nvml, gpu: f"GPU {gpu}"),
    "nvmlDeviceGetPciInfo_v3": (
        "pci",
        lambda nvml, gpu: SimpleNamespace(busId=f"00000000:0{gpu}:00.0".upper()),
    ),
    "nvmlSystemGetDriverVersion": ("driver", lambda nvml, gpu: "580.65"),
    "nvmlSystemGetCudaDriverVersion_v2": ("cuda", lambda nvml, gpu: 12040),
    "nvmlDeviceGetComputeRunningProcesses_v2": ("compute_v2", lambda nvml, gpu: nvml.computing),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": ("graphics", lambda nvml, gpu: nvml.drawing),
    "nvmlDeviceGetMaxMigDeviceCount": ("instances", lambda nvml, gpu: 7),
    "nvmlDeviceGetUtilizationRates": (
        "utilization",
        lambda nvml, gpu: SimpleNamespace(gpu=nvml.values["utilization"], memory=48),
    ),
    "nvmlDeviceGetMemoryInfo": (
        "memory_v{0}",
        lambda nvml, gpu: SimpleNamespace(
            total=nvml.totals.get(gpu, nvml.values["total"]), used=nvml.values["used"]
        ),
    ),
    "nvmlDeviceGetPowerUsage": ("power", lambda nvml, gpu: nvml.values["power"]),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy", lambda nvml, gpu: nvml.values["energy"]),
    "nvmlDeviceGetEnforcedPowerLimit": ("limit", lambda nvml, gpu: 120_000),
    "nvmlDeviceGetTemperature": ("temperature", lambda nvml, gpu: 61),
    "nvmlDeviceGetTemperatureThreshold": ("threshold", lambda nvml, gpu: 92),
    "nvmlDeviceGetClockInfo": ("clock{0}", lambda nvml, gpu: 1700),
    "nvmlDeviceGetMaxClockInfo": ("max_clock{0}", lambda nvml, gpu: 1980),
    "nvmlDeviceGetCurrentClocksEventReasons": ("reasons", lambda nvml, gpu: 0x5),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("max_generation", lambda nvml, gpu: 4),
    "nvmlDeviceGetMaxPcieLinkWidth": ("max_width", lambda nvml, gpu: 16),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("generation", lambda nvml, gpu: 3),
    "nvmlDeviceGetCurrPcieLinkWidth": ("width", lambda nvml, gpu: nvml.values["width"]),
    "nvmlDeviceGetFanSpeed": ("fan", lambda nvml, gpu: nvml.values["fan"]),
    "nvmlDeviceGetTotalEccErrors": ("ecc{0}", lambda nvml, gpu: nvml.values["ecc"]),
    "nvmlDeviceGetEncoderUtilization": ("encoder", lambda nvml, gpu: [7, 167_000]),
    "nvmlDeviceGetDecoderUtilization": ("decoder", lambda nvml, gpu: [8, 167_000]),
    "nvmlDeviceGetMigMode": ("mig", lambda nvml, gpu: [nvml.values["mig"], 0]),
}


class NvmlModule:
    """Enough of pynvml; `errors` maps a call, or a call and a GPU's uuid, to a code.

    A GPU whose uuid is "null" has no handle. `links` are the states of each GPU's NVLinks.
    """

    NVMLError = NVMLError
    nvmlMemory_v2 = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
    NVML_VOLATILE_ECC = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_NVLINK_MAX_LINKS = 36
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139

    def __init__(self, *uuids):
        self.uuids = list(uuids)
        self.errors = {}
        self.calls = []
        self.values = {"power": 118_000, "used": 5 * 2**30, "total": 8 * 2**30, "utilization": 97}
        self.values |= {"energy": 1_234_567, "width": 8, "fan": 35, "mig": 0, "ecc": 0}
        self.values |= {"sent": 0, "received": 0}
        self.totals = {}
        self.links = []
        self.computing = [process(7, 100), process(8, 200)]
        self.drawing = []
        self.on_instances = {}
        self.session = 0

    def _answer(self, call, handle=None):
        uuid = None
        if handle is not None:
            session, uuid = handle
            assert session == self.session, "a handle from before the last shutdown"
        self.calls.append(call if uuid is None else (call, uuid))
        for key in (call, (call, uuid), (None, uuid)):
            if key in self.errors:
                raise NVMLError(self.errors[key])

    def nvmlInit(self):
        self._answer("init")

    def nvmlShutdown(self):
        self.session += 1
        self._answer("shutdown")

    def nvmlDeviceGetCount(self):
        self._answer("count")
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index):
        handle = (self.session, self.uuids[index])
        self._answer("handle", handle)
        return None if self.uuids[index] == "null" else handle

    def __getattr__(self, name):
        if name not in ANSWERS:
            raise AttributeError(name)
        call, answer = ANSWERS[name]

        def called(handle=None, *arguments, version=1):
            if handle in self.on_instances:
                return answer(self, handle)
            self._answer(call.format(*(arguments or (version,))), handle)
            return answer(self, handle and handle[1])

        return called

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle):
        if handle in self.on_instances:
            return self.on_instances[handle]
        self._answer("compute", handle)
        return self.computing

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index not in self.on_instances:
            raise NVMLError(NOT_FOUND)
        return index

    def nvmlDeviceGetPcieThroughput(self, handle, direction):
        self._answer(f"pcie{direction}", handle)
        return 2048 * (1 + direction)

    def nvmlDeviceGetNvLinkState(self, handle, link):
        self._answer("link", handle)
        if link >= len(self.links):
            raise NVMLError(INVALID_ARGUMENT if link else NOT_SUPPORTED)
        return self.links[link]

    def nvmlDeviceGetFieldValues(self, handle, fields):
        self._answer("fields", handle)
        counts = {138: self.values["sent"], 139: self.values["received"]}
        return [
            SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=counts[field]))
            for field, _ in fields
        ]
