"""GPUs of AMD and Intel, as the kernel's drivers amdgpu, i915 and xe report them in files."""
