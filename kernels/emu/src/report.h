// What went wrong, where: an error of CUDA, and a text with the kernel, block, thread and line.
#pragma once

#include <string>

#include "block.h"

namespace emu {

enum class Code { ok = 0, illegal_address = 700, illegal_instruction = 715, misaligned_address = 716, launch_failed = 719 };

// Ends the running block with a report, of which the first counts.
[[noreturn]] void fail(Code code, const void* pc, const char* format, ...) __attribute__((format(printf, 3, 4)));

// A report from outside a block's fibers, of kernel l if it is not null.
void report(Code code, const Launch* l, const std::string& text);

// The first report since the last reset: its code and its text.
Code reported();
std::string report_text();
void reset_report();

// "kernels/linear.cu:88 (load)", of an instruction in a kernel; the kernel's own line, not that of the function in
// ptx.cuh that it called.
std::string place(const void* pc);

const char* name(Meet kind);

} // namespace emu
