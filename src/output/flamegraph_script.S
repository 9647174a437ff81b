/* SPDX-License-Identifier: GPL-2.0-only */
/* The flame graph's script, as it stands in flamegraph.js. */
	.section .rodata
	.global flamegraph_script
	.global flamegraph_script_end
flamegraph_script:
	.incbin "src/output/flamegraph.js"
flamegraph_script_end:
	.section .note.GNU-stack, "", @progbits
