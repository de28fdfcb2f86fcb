// The device, its context, its memory, its modules and launches, as the driver API has them.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>

#include "api.h"
#include "report.h"
#include "settings.h"
#include "tensormap.h"
#include "worker.h"

namespace emu {

static thread_local Context* current;

int ready() {
	if (!driver().initialized) return NOT_INITIALIZED;
	if (!current) return INVALID_CONTEXT;
	return (int)reported();
}

static bool is_device(int dev) { return dev >= 0 && dev < settings().devices; }

// Everything of the context goes, its error too.
static void reset(std::unique_lock<std::mutex>& lock) {
	Driver& d = driver();
	await_all(lock);
	for (Stream* s : d.streams) delete s;
	for (Event* e : d.events) delete e;
	for (Module* m : d.modules) delete m;
	d.streams.clear();
	d.events.clear();
	d.modules.clear();
	d.graphs.clear();
	d.execs.clear();
	release_all();
	reset_report();
}

} // namespace emu

using namespace emu;

#define BEGIN                       \
	Driver& d = driver();             \
	std::unique_lock lock(d.mutex);   \
	if (int bad = ready()) return bad; \
	(void)d

#define STREAM(s, handle)        \
	Stream* s = stream_of(handle); \
	if (!s) return INVALID_HANDLE

// Says to the binding that the kernels are in here, and no images are needed.
EMU_API tandem_emulated(void) { return 1; }

EMU_API emu_set(const char* name, const char* value) {
	std::lock_guard lock(driver().mutex);
	return set(name, value) ? SUCCESS : INVALID_VALUE;
}

// The first report since the context was made, with kernel, block, thread and line; "" if all is well.
extern "C" EMU_EXPORT const char* emu_last_report(void) {
	static thread_local std::string text;
	text = report_text();
	return text.c_str();
}

EMU_API cuInit(unsigned flags) {
	std::lock_guard lock(driver().mutex);
	if (flags) return INVALID_VALUE;
	driver().initialized = true;
	return settings().devices > 0 ? SUCCESS : NO_DEVICE;
}

EMU_API cuDriverGetVersion(int* version) {
	*version = 13000;
	return SUCCESS;
}

EMU_API cuDeviceGetCount(int* n) {
	*n = settings().devices;
	return SUCCESS;
}

EMU_API cuDeviceGet(int* dev, int index) {
	*dev = index;
	return is_device(index) ? SUCCESS : INVALID_DEVICE;
}

EMU_API cuDeviceGetName(char* name, int len, int dev) {
	if (!is_device(dev)) return INVALID_DEVICE;
	const Settings& s = settings();
	const char* model = s.major == 9 ? "H100" : s.major == 10 ? "B200" : s.major == 8 ? "A100" : nullptr;
	if (model) snprintf(name, len, "Emulated %s", model);
	else snprintf(name, len, "Emulated GPU of capability %d.%d", s.major, s.minor);
	return SUCCESS;
}

EMU_API cuDeviceGetPCIBusId(char* id, int len, int dev) {
	if (!is_device(dev)) return INVALID_DEVICE;
	snprintf(id, len, "0000:%02X:00.0", dev + 1);
	return SUCCESS;
}

EMU_API cuDeviceGetUuid_v2(unsigned char* uuid, int dev) {
	if (!is_device(dev)) return INVALID_DEVICE;
	memset(uuid, 0, 16);
	uuid[15] = (unsigned char)(dev + 1);
	return SUCCESS;
}

EMU_API cuDeviceTotalMem_v2(size_t* bytes, int dev) {
	*bytes = settings().memory;
	return is_device(dev) ? SUCCESS : INVALID_DEVICE;
}

EMU_API cuDeviceGetAttribute(int* value, int attribute, int dev) {
	if (!is_device(dev)) return INVALID_DEVICE;
	const Settings& s = settings();
	static const std::map<int, int> values = {
	    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, // threads of a block; its and the grid's sizes
	    {8, 48 << 10},   // shared memory of a block, without asking for more
	    {10, 32},        // threads of a warp
	    {12, 65536},     // registers of a block
	    {13, 1980000},   // kHz
	    {15, 1},         // copies while kernels run
	    {20, 0},         // compute mode
	    {31, 1},         // concurrent kernels
	    {32, 0},         // ECC
	    {36, 2619000},   // kHz of memory
	    {37, 5120},      // bits of the bus
	    {38, 50 << 20},  // L2
	    {39, 2048},      // threads of a multiprocessor
	    {40, 3},         // engines that copy
	    {41, 1},         // unified addresses
	    {81, 228 << 10}, {82, 65536}, // shared memory and registers of a multiprocessor
	    {97, 227 << 10}, // shared memory of a block that asks for it
	    {106, 32},       // blocks of a multiprocessor
	};
	switch (attribute) {
	case 16: *value = s.multiprocessors; return SUCCESS;
	case 75: *value = s.major; return SUCCESS;
	case 76: *value = s.minor; return SUCCESS;
	case 127: *value = s.major >= 9; return SUCCESS; // tensor maps
	}
	auto i = values.find(attribute);
	*value = i == values.end() ? 0 : i->second;
	return SUCCESS;
}

EMU_API cuDevicePrimaryCtxRetain(void** out, int dev) {
	std::lock_guard lock(driver().mutex);
	if (!driver().initialized) return NOT_INITIALIZED;
	if (!is_device(dev)) return INVALID_DEVICE;
	Context& c = driver().contexts[dev];
	c.device = dev;
	c.uses++;
	*out = &c;
	return SUCCESS;
}

EMU_API cuDevicePrimaryCtxRelease_v2(int dev) {
	Driver& d = driver();
	std::unique_lock lock(d.mutex);
	if (!is_device(dev) || !d.contexts.count(dev) || d.contexts[dev].uses == 0) return INVALID_CONTEXT;
	if (--d.contexts[dev].uses) return SUCCESS;
	for (auto& [_, c] : d.contexts)
		if (c.uses) return SUCCESS; // devices share what the emulator has
	reset(lock);
	return SUCCESS;
}

EMU_API cuDevicePrimaryCtxReset_v2(int dev) {
	std::unique_lock lock(driver().mutex);
	if (!is_device(dev)) return INVALID_DEVICE;
	reset(lock);
	return SUCCESS;
}

EMU_API cuCtxSetCurrent(void* c) {
	current = (Context*)c;
	return SUCCESS;
}

EMU_API cuCtxGetCurrent(void** c) {
	*c = current;
	return SUCCESS;
}

EMU_API cuCtxGetDevice(int* dev) {
	if (!current) return INVALID_CONTEXT;
	*dev = current->device;
	return SUCCESS;
}

// ---- Memory

EMU_API cuMemGetInfo_v2(size_t* free, size_t* total) {
	BEGIN;
	*total = settings().memory;
	*free = *total - std::min(*total, allocated());
	return SUCCESS;
}

EMU_API cuMemAlloc_v2(uint64_t* p, size_t bytes) {
	BEGIN;
	if (!bytes) return INVALID_VALUE;
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	if (bytes > settings().memory || allocated() > settings().memory - bytes) return OUT_OF_MEMORY;
	*p = (uint64_t)allocate(bytes, false);
	return *p ? SUCCESS : OUT_OF_MEMORY;
}

static int give_back(uint64_t p) {
	BEGIN;
	if (!p) return SUCCESS;
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	await_all(lock);
	return release((void*)p) ? SUCCESS : INVALID_VALUE;
}

EMU_API cuMemFree_v2(uint64_t p) { return give_back(p); }

EMU_API cuMemHostAlloc(void** p, size_t bytes, unsigned) {
	BEGIN;
	if (!bytes) return INVALID_VALUE;
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	*p = allocate(bytes, true);
	return *p ? SUCCESS : OUT_OF_MEMORY;
}

EMU_API cuMemFreeHost(void* p) { return give_back((uint64_t)p); }

EMU_API cuMemHostRegister_v2(void* p, size_t bytes, unsigned) {
	BEGIN;
	if (!p || !bytes || (uint64_t)p % 4096 || bytes % 4096) return INVALID_VALUE; // not asked for by every driver
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	return adopt(p, bytes) ? SUCCESS : HOST_MEMORY_ALREADY_REGISTERED;
}

EMU_API cuMemHostUnregister(void* p) {
	BEGIN;
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	await_all(lock);
	return release(p, true) ? SUCCESS : HOST_MEMORY_NOT_REGISTERED;
}

EMU_API cuMemHostGetDevicePointer_v2(uint64_t* out, void* p, unsigned flags) {
	BEGIN;
	Allocation a;
	if (!find(p, &a) || !a.host || flags) return INVALID_VALUE;
	*out = (uint64_t)p;
	return SUCCESS;
}

enum Place { outside, device, pinned, pageable };

static Place place_of(uint64_t p, size_t n) {
	Allocation a;
	if (!find((void*)p, &a)) return pageable;
	if (!inside(a, (void*)p, n)) return outside;
	return a.host ? pinned : device;
}

// From pageable memory a copy takes the bytes when it is asked for; into it, it has ended when the call has.
static int copy(uint64_t dst, uint64_t src, size_t n, void* stream, bool wait) {
	BEGIN;
	STREAM(s, stream);
	if (!n) return SUCCESS;
	Place to = place_of(dst, n), from = place_of(src, n);
	if (to == outside || from == outside || !dst || !src) return INVALID_VALUE;
	Command c{};
	c.kind = Command::copy;
	c.dst = (char*)dst;
	c.src = (const char*)src;
	c.bytes = n;
	if (wait && capturing(lock)) return CAPTURE_UNSUPPORTED;
	if (from == pageable && !s->capture) c.held = std::make_shared<std::vector<char>>(c.src, c.src + n);
	if (int bad = enqueue(lock, s, std::move(c))) return bad;
	if ((wait || to == pageable) && !s->capture) await(lock, s->last);
	return (int)reported();
}

EMU_API cuMemcpyAsync(uint64_t dst, uint64_t src, size_t n, void* s) { return copy(dst, src, n, s, false); }
EMU_API cuMemcpyHtoDAsync_v2(uint64_t dst, const void* src, size_t n, void* s) { return copy(dst, (uint64_t)src, n, s, false); }
EMU_API cuMemcpyDtoHAsync_v2(void* dst, uint64_t src, size_t n, void* s) { return copy((uint64_t)dst, src, n, s, false); }
EMU_API cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, void* s) { return copy(dst, src, n, s, false); }
EMU_API cuMemcpy(uint64_t dst, uint64_t src, size_t n) { return copy(dst, src, n, nullptr, true); }
EMU_API cuMemcpyHtoD_v2(uint64_t dst, const void* src, size_t n) { return copy(dst, (uint64_t)src, n, nullptr, true); }
EMU_API cuMemcpyDtoH_v2(void* dst, uint64_t src, size_t n) { return copy((uint64_t)dst, src, n, nullptr, true); }

EMU_API cuMemsetD8Async(uint64_t p, unsigned char value, size_t n, void* stream) {
	BEGIN;
	STREAM(s, stream);
	if (!n) return SUCCESS;
	Place at = place_of(p, n);
	if (at != device && at != pinned) return INVALID_VALUE;
	Command c{};
	c.kind = Command::fill;
	c.dst = (char*)p;
	c.value = value;
	c.bytes = n;
	return enqueue(lock, s, std::move(c));
}

// ---- Modules and launches

// Whatever the image: the kernels are those compiled into the library.
EMU_API cuModuleLoadData(void** out, const void*) {
	BEGIN;
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	Module* m = new Module;
	d.modules.insert(m);
	*out = m;
	return SUCCESS;
}

EMU_API cuModuleLoadDataEx(void** out, const void* image, unsigned, int*, void**) { return cuModuleLoadData(out, image); }

EMU_API cuModuleUnload(void* module) {
	BEGIN;
	if (!d.modules.erase((Module*)module)) return INVALID_HANDLE;
	await_all(lock);
	delete (Module*)module;
	return SUCCESS;
}

static const Entry* entry(const char* name) {
	static void* self_handle = [] {
		Dl_info info;
		dladdr((void*)entry, &info);
		return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	}();
	return (const Entry*)dlsym(self_handle, (std::string("emu_kernel_") + name).c_str());
}

EMU_API cuModuleGetFunction(void** out, void* module, const char* name) {
	BEGIN;
	Module* m = (Module*)module;
	if (!d.modules.count(m)) return INVALID_HANDLE;
	const Entry* e = entry(name);
	if (!e) return NOT_FOUND;
	Function& f = m->functions[name];
	f.entry = e;
	*out = &f;
	return SUCCESS;
}

EMU_API cuFuncGetAttribute(int* value, int attribute, void* function) {
	BEGIN;
	const Function& f = *(Function*)function;
	switch (attribute) {
	case 0: *value = f.entry->threads; return SUCCESS;
	case 4: *value = launch_registers(f.entry); return SUCCESS;
	case 5: case 6: *value = 10 * settings().major + settings().minor; return SUCCESS;
	case 8: *value = f.dynamic; return SUCCESS;
	default: *value = 0; return attribute >= 0 && attribute < 16 ? SUCCESS : INVALID_VALUE;
	}
}

EMU_API cuFuncSetAttribute(void* function, int attribute, int value) {
	BEGIN;
	Function& f = *(Function*)function;
	if (attribute == 9) return SUCCESS; // how the L1 is divided
	if (attribute != 8 || value < 0 || value > (int)SHARED_MAX) return INVALID_VALUE;
	f.dynamic = value;
	return SUCCESS;
}

EMU_API cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* size) {
	BEGIN;
	if (index) return INVALID_VALUE;
	*offset = 0;
	if (size) *size = ((Function*)function)->entry->size;
	return SUCCESS;
}

EMU_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void* function, int threads, size_t shared) {
	BEGIN;
	const Function& f = *(Function*)function;
	if (threads <= 0) return INVALID_VALUE;
	int by_threads = 2048 / threads, by_registers = 65536 / (launch_registers(f.entry) * threads);
	*n = std::min({32, by_threads, by_registers, (int)((228 << 10) / (shared + 1024))});
	return SUCCESS;
}

static std::shared_ptr<void> keep_args(const void* args, size_t n) {
	std::shared_ptr<void> p(aligned_alloc(128, (n + 127) & ~(size_t)127), free);
	memcpy(p.get(), args, n);
	return p;
}

EMU_API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream,
                       void** params, void** extra) {
	BEGIN;
	STREAM(s, stream);
	const Function& f = *(Function*)function;
	if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535) return INVALID_VALUE;
	if (!bx || !by || !bz || !params || !params[0] || extra) return INVALID_VALUE;
	if (by != 1 || bz != 1 || bx % 32 || bx > THREADS_MAX) return INVALID_VALUE; // our kernels' blocks are whole warps in a row
	if (bx > (unsigned)f.entry->threads) return LAUNCH_OUT_OF_RESOURCES;
	if (shared > (unsigned)f.dynamic) return INVALID_VALUE;
	Command c{};
	c.kind = Command::launch;
	c.work = std::shared_ptr<Launch>(new Launch{f.entry, keep_args(params[0], f.entry->size), {gx, gy, gz}, {bx, by, bz}, shared, 0});
	return enqueue(lock, s, std::move(c));
}

struct LaunchConfig {
	unsigned gx, gy, gz, bx, by, bz, shared;
	void* stream;
	struct Attribute {
		int id;
		char pad[4];
		unsigned value[16];
	}* attributes;
	unsigned n;
};

EMU_API cuLaunchKernelEx(const LaunchConfig* c, void* f, void** params, void** extra) {
	for (unsigned i = 0; i < c->n; i++) { // clusters of one block are none
		const LaunchConfig::Attribute& a = c->attributes[i];
		if (a.id == 4 && (a.value[0] != 1 || a.value[1] != 1 || a.value[2] != 1)) return NOT_SUPPORTED;
	}
	return cuLaunchKernel(f, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->stream, params, extra);
}
