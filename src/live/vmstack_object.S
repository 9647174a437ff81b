/* SPDX-License-Identifier: GPL-2.0-only */
/* The copier's compiled programs, as bytes. The assembler is told their folder (-I). */
	.macro object name
	.balign 8
	.globl \name\()_object
	.type \name\()_object, @object
\name\()_object:
	.incbin "\name\().bpf.o"
	.size \name\()_object, . - \name\()_object
	.globl \name\()_object_end
\name\()_object_end:
	.byte 0
	.endm

	.section .rodata, "a", @progbits
	object vmstack_task
	object vmstack_plain
	.section .note.GNU-stack, "", @progbits
