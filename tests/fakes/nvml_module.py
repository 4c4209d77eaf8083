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

    def nvmlDeviceGetUUID(self, handle):
        self._answer("uuid", handle)
        return handle[1]

    def nvmlDeviceGetName(self, handle):
        self._answer("name", handle)
        return f"GPU {handle[1]}"

    def nvmlDeviceGetPciInfo_v3(self, handle):
        self._answer("pci", handle)
        return SimpleNamespace(busId=f"00000000:0{handle[1]}:00.0".upper())

    def nvmlSystemGetDriverVersion(self):
        self._answer("driver")
        return "580.65"

    def nvmlSystemGetCudaDriverVersion_v2(self):
        self._answer("cuda")
        return 12040

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle):
        if handle in self.on_instances:
            return self.on_instances[handle]
        self._answer("compute", handle)
        return self.computing

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle):
        self._answer("compute_v2", handle)
        return self.computing

    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle):
        self._answer("graphics", handle)
        return self.drawing

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        self._answer("instances", handle)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index not in self.on_instances:
            raise NVMLError(NOT_FOUND)
        return index

    def nvmlDeviceGetUtilizationRates(self, handle):
        self._answer("utilization", handle)
        return SimpleNamespace(gpu=self.values["utilization"])

    def nvmlDeviceGetMemoryInfo(self, handle, version=1):
        self._answer(f"memory_v{version}", handle)
        return SimpleNamespace(total=self.values["total"], used=self.values["used"])

    def nvmlDeviceGetPowerUsage(self, handle):
        self._answer("power", handle)
        return self.values["power"]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._answer("energy", handle)
        return self.values["energy"]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        self._answer("limit", handle)
        return 120_000

    def nvmlDeviceGetTemperature(self, handle, sensor):
        self._answer("temperature", handle)
        return 61

    def nvmlDeviceGetTemperatureThreshold(self, handle, threshold):
        self._answer("threshold", handle)
        return 92

    def nvmlDeviceGetClockInfo(self, handle, clock):
        self._answer(f"clock{clock}", handle)
        return 1700

    def nvmlDeviceGetMaxClockInfo(self, handle, clock):
        self._answer(f"max_clock{clock}", handle)
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        self._answer("reasons", handle)
        return 0x5

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle):
        self._answer("max_generation", handle)
        return 4

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle):
        self._answer("max_width", handle)
        return 16

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):
        self._answer("generation", handle)
        return 3

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle):
        self._answer("width", handle)
        return self.values["width"]

    def nvmlDeviceGetPcieThroughput(self, handle, direction):
        self._answer(f"pcie{direction}", handle)
        return 2048 * (1 + direction)

    def nvmlDeviceGetFanSpeed(self, handle):
        self._answer("fan", handle)
        return self.values["fan"]

    def nvmlDeviceGetTotalEccErrors(self, handle, kind, counter):
        self._answer(f"ecc{kind}", handle)
        return self.values["ecc"]

    def nvmlDeviceGetEncoderUtilization(self, handle):
        self._answer("encoder", handle)
        return [7, 167_000]

    def nvmlDeviceGetDecoderUtilization(self, handle):
        self._answer("decoder", handle)
        return [8, 167_000]

    def nvmlDeviceGetMigMode(self, handle):
        self._answer("mig", handle)
        return [self.values["mig"], 0]

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
