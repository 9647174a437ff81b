/* SPDX-License-Identifier: GPL-2.0-only */
/* The copier's compiled program, as bytes. VMSTACK_OBJECT: its path, quoted. */
	.section .rodata, "a", @progbits
	.balign 8
	.globl vmstack_object
	.type vmstack_object, @object
vmstack_object:
	.incbin VMSTACK_OBJECT
	.size vmstack_object, . - vmstack_object
	.globl vmstack_object_end
vmstack_object_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
