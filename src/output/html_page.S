/* SPDX-License-Identifier: GPL-2.0-only */
/* The HTML page's style and script, as they stand in html.css and html.js. */
	.section .rodata
	.global html_style, html_style_end, html_script, html_script_end
html_style:
	.incbin "src/output/html.css"
html_style_end:
html_script:
	.incbin "src/output/html.js"
html_script_end:
	.section .note.GNU-stack, "", @progbits
