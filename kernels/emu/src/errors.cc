// Names and texts of results.
#include "api.h"
#include "report.h"

using namespace emu;

struct Words {
	const char *name, *text;
};

static const Words* words(int code) {
	static const auto* all = new std::map<int, Words>{
	    {SUCCESS, {"CUDA_SUCCESS", "no error"}},
	    {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
	    {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
	    {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "cuInit has not been called"}},
	    {NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
	    {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
	    {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "no context is current on the thread"}},
	    {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid handle"}},
	    {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "no such kernel"}},
	    {NOT_READY, {"CUDA_ERROR_NOT_READY", "not ready"}},
	    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
	    {LAUNCH_OUT_OF_RESOURCES, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "more threads than the kernel's launch bounds"}},
	    {715, {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"}},
	    {716, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
	    {HOST_MEMORY_ALREADY_REGISTERED, {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the memory is registered already"}},
	    {HOST_MEMORY_NOT_REGISTERED, {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not registered"}},
	    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
	    {NOT_PERMITTED, {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"}},
	    {NOT_SUPPORTED, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
	    {CAPTURE_UNSUPPORTED, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
	    {CAPTURE_INVALIDATED, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture was invalidated by an earlier error"}},
	    {CAPTURE_MERGE, {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would be merged"}},
	    {CAPTURE_UNMATCHED, {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not begun in this stream"}},
	    {CAPTURE_UNJOINED, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "the capture has work that was not joined to the first stream"}},
	    {CAPTURE_ISOLATION, {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "a wait for an event outside the capture"}},
	    {CAPTURED_EVENT, {"CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capture"}},
	};
	auto i = all->find(code);
	return i == all->end() ? nullptr : &i->second;
}

EMU_API cuGetErrorName(int code, const char** text) {
	const Words* w = words(code);
	*text = w ? w->name : nullptr;
	return w ? SUCCESS : INVALID_VALUE;
}

// The text of a failure in a kernel is the report of it.
EMU_API cuGetErrorString(int code, const char** text) {
	const Words* w = words(code);
	*text = w ? w->text : nullptr;
	if (code && code == (int)reported()) {
		static thread_local std::string said;
		said = std::string(w->text) + ": " + report_text();
		*text = said.c_str();
	}
	return w ? SUCCESS : INVALID_VALUE;
}
