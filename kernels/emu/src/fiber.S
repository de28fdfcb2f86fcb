// void emu_switch(void** save, void* to): leaves one stack and goes on where another was left. Only what a call keeps is
// saved, so a switch costs what a call does.
#ifdef __x86_64__
	.text
	.globl emu_switch
	.hidden emu_switch
	.type emu_switch, @function
	.p2align 4
emu_switch:
	.cfi_startproc
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.cfi_endproc
	.size emu_switch, .-emu_switch
#else
#error "the emulator switches fibers on amd64 only"
#endif
	.section .note.GNU-stack, "", @progbits
