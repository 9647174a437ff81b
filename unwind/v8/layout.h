/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The layout of the V8 in one binary. Values come from V8's own metadata (`v8dbg_*`: symbols of
 * four bytes each that V8 exports for debuggers) where it exists, else from a table by V8 version.
 * Builtins come from their symbols. Before the unwinder believes anything that rests on a value, it
 * checks the object: its map, its instance type, and that pointers lead back.
 *
 * Words: a tagged word is either a Smi (bit 0 is clear; here the value is the upper half) or a
 * pointer to a heap object plus 1 (weak pointer: plus 3). Offsets below count from the object's
 * start, untagged. "Frame slots" are at the frame's address, to
 * which the frame pointer points, plus the value.
 */
#ifndef UNWIND_V8_LAYOUT_H
#define UNWIND_V8_LAYOUT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { V8_UNKNOWN = INT32_MIN };

/*
 * Every value: its name, the prefix of its metadata symbol after "v8dbg_" ("": it has none), and
 * its values for V8 7.8, 8.4, 9.4, 10.2, 11.3, 11.8, 12.4, 12.9, 13.6, 14.1, 14.6 (Node 12, 14, 16,
 * 18, 20, 21, 22, 23, 24, 25, 26). They were read from the binaries of these versions and from V8's
 * sources. U: not in that version, or only in metadata.
 */
/* clang-format off */
#define V8_FIELDS(X, U)                                                                             \
    X(fp_bytecode_array, "off_fp_bytecode_array", -24, -24, -32, -32, -32, -32, -32, -32, -32, -32, -32, "frame slot: BytecodeArray") \
    X(fp_bytecode_offset, "off_fp_bytecode_offset", -32, -32, -40, -40, -40, -40, -40, -40, -40, -40, -40, "frame slot: bytecode offset") \
    X(fp_function, "off_fp_function", -16, -16, -16, -16, -16, -16, -16, -16, -16, -16, -16, "frame slot: JSFunction") \
    X(fp_feedback, "", U, U, -40, -40, -40, -40, -48, -48, -48, -48, -48, "frame slot: FeedbackVector, of baseline code up to 11.8") \
    X(array_register, "", 14, 14, 12, 12, 12, 12, 12, 12, 12, 12, 12, "register that holds the BytecodeArray") \
    X(map_type, "class_Map__instance_type", 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, "Map: instance type, u16") \
    X(fn_shared, "class_JSFunction__shared", 24, 24, 24, 24, 24, 32, 32, 32, 32, 32, 32, "JSFunction: SharedFunctionInfo") \
    X(fn_context, "class_JSFunction__context", 32, 32, 32, 32, 32, 40, 40, 40, 40, 40, 40, "JSFunction: Context") \
    X(sfi_data, "class_SharedFunctionInfo__function_data", 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, "SharedFunctionInfo: bytecode, or what is in its place") \
    X(sfi_untrusted, "", U, U, U, U, U, U, U, 16, 16, 16, 16, "SharedFunctionInfo: the same, when not trusted") \
    X(sfi_name, "class_SharedFunctionInfo__name_or_scope_info", 16, 16, 16, 16, 16, 16, 16, 24, 24, 24, 24, "SharedFunctionInfo: name or ScopeInfo") \
    X(sfi_flags, "class_SharedFunctionInfo__flags", 48, 48, 48, 48, 48, 48, 48, 56, 56, 56, 56, "SharedFunctionInfo: flags, u32") \
    X(sfi_disabled, "", U, 20, 19, 19, 19, 19, 19, 19, 19, 19, 19, "SharedFunctionInfo flags: first of four bits, why V8 does not optimize it") \
    X(sfi_script, "class_SharedFunctionInfo__script", 32, 32, 32, 32, 32, 32, 32, 40, 40, 40, 40, "SharedFunctionInfo: Script") \
    X(script_source, "class_Script__source", 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, "Script: source") \
    X(script_name, "class_Script__name", 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, "Script: name") \
    X(script_line, "", 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, "Script: line offset") \
    X(script_column, "", 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, "Script: column offset") \
    X(script_line_ends, "class_Script__line_ends", 56, 56, 56, 56, 56, 56, 56, 56, 56, 56, 56, "Script: line ends") \
    X(script_id, "class_Script__id", 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, "Script: id") \
    X(script_eval_from, "class_Script__eval_from_shared", 72, 72, 72, 72, 72, 72, 72, 72, 72, 72, 72, "Script: who called eval") \
    X(script_url, "", 104, 104, 104, 104, 112, 112, 112, 112, 112, 112, 112, "Script: sourceURL") \
    X(script_native, "class_Script__wasm_managed_native_module", U, U, U, 80, 80, 80, 80, 80, 80, 80, 80, "Script of WebAssembly: Foreign of its NativeModule") \
    X(wasm_instance, "", U, U, U, 208, 208, U, 160, 152, 152, 152, 104, "a WebAssembly frame's instance: its module object (to V8 11.3), or the object that has it") \
    X(wasm_module, "", U, U, U, U, U, U, 32, 32, 32, 32, 32, "WasmInstanceObject: WasmModuleObject") \
    X(wasm_script, "", U, U, U, 40, 32, U, 32, 32, 32, 32, 32, "WasmModuleObject: Script") \
    X(native_wire, "", U, U, U, 312, 200, U, 200, 240, 240, 240, 232, "NativeModule: bytes of the module") \
    X(module_functions, "", U, U, U, 216, 216, U, 248, 192, 192, 200, 160, "WasmModule: its functions, a std::vector") \
    X(native_codes, "", U, U, U, 416, 304, U, 392, 432, 312, 312, 304, "NativeModule: its code, a std::map by address") \
    X(native_new, "", U, U, U, 464, 352, U, 440, 480, 360, 360, 352, "NativeModule: code that is not in the map yet, a std::vector") \
    X(wasm_code_size, "", U, U, U, 32, 24, U, 24, 24, 32, 32, 32, "WasmCode: bytes of instructions, i32") \
    X(wasm_code_tables, "", U, U, U, 24, 16, U, 16, 16, 24, 24, 24, "WasmCode: its tables, one behind the other") \
    X(wasm_code_index, "", U, U, U, 48, 44, U, 44, 48, 56, 56, 56, "WasmCode: number of the function, i32") \
    X(wasm_code_flags, "", U, U, U, 16, 80, U, 80, 88, 96, 100, 120, "WasmCode: kind and tier, u8") \
    X(wasm_tier_shift, "", U, U, U, 2, 2, U, 2, 2, 2, 3, 3, "WasmCode flags: shift of the tier, behind the kind") \
    X(string_length, "class_String__length", 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, "String: length, i32") \
    X(array_length, "", 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, "FixedArray, ByteArray, BytecodeArray: length") \
    X(array_data, "", 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, "FixedArray, ByteArray: first element") \
    X(bytecode_data, "class_BytecodeArray__data", 54, 54, 54, 56, 54, 52, 64, 64, 64, 64, 64, "BytecodeArray: first bytecode") \
    X(bytecode_positions, "class_BytecodeArray__source_position_table", 32, 32, 32, 32, 32, 32, 24, 24, 24, 24, 24, "BytecodeArray: source positions") \
    X(bytecode_constants, "", 16, 16, 16, 16, 16, 16, 40, 40, 40, 40, 40, "BytecodeArray: constants, functions that it makes among them") \
    X(scope_data, "", 16, 16, 8, 8, 8, 8, 8, 8, 8, 8, 8, "ScopeInfo: first element") \
    X(scope_first, "scopeinfo_idx_first_vars", 3, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, "ScopeInfo: index behind the fixed elements") \
    X(scope_function, "", 11, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, "ScopeInfo flags: bit of the function variable") \
    X(scope_inferred, "", 13, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, "ScopeInfo flags: bit of the inferred name") \
    X(scope_saved_class, "", U, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, "ScopeInfo flags: bit of the saved class variable") \
    X(scope_receiver, "", 7, 7, 7, U, U, U, U, U, U, U, U, "ScopeInfo flags: bits of a receiver that has an element") \
    X(scope_names_max, "", U, U, U, 75, 75, 75, 75, 75, 75, 75, 75, "ScopeInfo: from so many names on they are in a table") \
    X(scope_module, "", U, U, U, U, U, U, 3, 5, 5, 5, 5, "ScopeInfo: scope type of modules, which have one more element") \
    X(scope_kind, "", U, U, U, U, U, 17, 17, 17, 17, 17, 17, "ScopeInfo flags: first bit of the kind of function") \
    X(scope_members, "", U, U, U, U, U, 24, 24, 24, 24, 24, 24, "kinds from here on: functions that set the fields of instances; before V8 11.8 they had names") \
    X(scope_statics, "", U, U, U, U, U, 25, 25, 25, 25, 25, 26, "kinds from here on, as many: the static ones") \
    X(code_deopt, "class_Code__deoptimization_data", 16, 16, 16, 16, 16, 8, 8, 8, 8, 8, 8, "Code: deoptimization data, or of baseline code its bytecode") \
    X(code_positions, "class_Code__source_position_table", 24, 24, 24, 24, 24, 16, 16, 16, 16, 16, 16, "Code: source positions, or of baseline code bytecode offsets") \
    X(code_start, "class_Code__instruction_start", U, U, U, U, 40, 32, 40, 40, 40, 40, 40, "Code: where its instructions are") \
    X(code_first, "", 64, 96, 96, 128, U, U, U, U, U, U, U, "Code: first instruction in the object itself") \
    X(code_flags, "class_Code__flags", 44, 44, 48, 48, 48, 40, 48, 48, 52, 52, 52, "Code: flags, u32") \
    X(code_size, "class_Code__instruction_size", 40, 40, 40, 40, 56, 44, 52, 52, 56, 56, 56, "Code: bytes of instructions, u32") \
    X(code_container, "", U, 32, 32, 32, U, U, U, U, U, U, U, "Code: CodeDataContainer, which has the flag of code_marked") \
    X(code_marked, "", U, 16, 16, 16, 52, 40, 48, 48, 52, 52, 52, "Code (or its CodeDataContainer): u32 with the flag that it was deoptimized") \
    X(code_marked_bit, "", U, 0, 0, 0, 16, 29, 29, 29, 6, 6, 7, "bit of that flag") \
    X(code_relocations, "", U, U, 8, 8, 8, U, U, U, U, U, U, "Code: relocation information") \
    X(stream_relocations, "", U, U, U, U, U, U, 16, 16, 16, 16, 16, "InstructionStream: relocation information") \
    X(relocation_deopt, "", U, U, 15, 15, 14, U, 15, 16, 17, 17, 17, "relocation information: mode of a deoptimization's place in the source; inlining, reason and number follow") \
    X(relocation_behind, "", U, U, 0, 0, 0, U, 0, 0, 0, 0, 1, "relocation information: 1: that of a deoptimization has the address behind its call") \
    X(relocation_jump, "", U, U, 21, 21, 20, U, 20, 21, 22, 22, 22, "relocation information: mode of a long distance") \
    X(stream_code, "", U, U, U, U, 8, 8, 8, 8, 8, 8, 8, "InstructionStream: Code") \
    X(stream_first, "", U, U, U, U, 16, 32, 32, 32, 32, 32, 32, "InstructionStream: first instruction") \
    X(kind_shift, "CodeKindFieldShift", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, "Code flags: shift of the kind") \
    X(kind_mask, "CodeKindFieldMask", 62, 62, 15, 15, 15, 15, 15, 15, 15, 15, 15, "Code flags: mask of the kind") \
    X(kind_regexp, "", U, U, 3, 3, U, U, U, U, U, U, U, "kind of code: compiled regular expression; later its frame has a type") \
    X(kind_js_to_wasm, "", U, U, 7, 7, 7, 7, 7, 7, 7, 7, 8, "kind of code: JavaScript calls WebAssembly") \
    X(kind_interpreted, "CodeKindInterpretedFunction", U, U, 10, 10, 10, 10, 9, 9, 9, 9, 10, "kind of interpreted functions") \
    X(kind_baseline, "CodeKindBaseline", U, U, 11, 11, 11, 11, 10, 10, 10, 10, 11, "kind of baseline code") \
    X(kind_maglev, "", U, U, U, 12, 12, 12, 11, 11, 11, 11, 12, "kind of Maglev code") \
    X(kind_turbofan, "", 0, 0, 13, 13, 13, 13, 12, 12, 12, 12, 13, "kind of optimized code") \
    X(deopt_literals, "DeoptimizationDataLiteralArrayIndex", 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, "deoptimization data: literals") \
    X(deopt_sfi, "DeoptimizationDataSharedFunctionInfoIndex", 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, "deoptimization data: the outer function") \
    X(deopt_id, "DeoptimizationDataOptimizationIdIndex", U, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, "deoptimization data: number of the optimization") \
    X(deopt_inlining, "DeoptimizationDataInliningPositionsIndex", 7, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8, "deoptimization data: inlining positions") \
    X(deopt_entries, "", 9, 10, 11, 11, 11, 11, 11, 11, 12, 12, 12, "deoptimization data: the first place's three Smis") \
    X(code_safepoints, "", 48, 48, U, U, U, U, U, U, U, U, U, "Code: where in its instructions the safepoint table is, u32") \
    X(safepoints, "", U, U, 0, 0, 0, 0, 0, 0, 4, 4, 4, "optimized code: its safepoint table, behind the instructions") \
    X(safepoints_form, "", 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, "safepoint table: 0 numbers as short as can be, 1 of 32 bits") \
    X(safepoints_first, "", U, U, U, U, U, U, U, U, 12, 12, 12, "safepoint table of Maglev's code: the first entry") \
    X(wrapper_sfi, "class_SharedFunctionInfoWrapper__shared_info", U, U, U, U, U, U, 8, 8, 8, 8, 8, "SharedFunctionInfoWrapper: SharedFunctionInfo") \
    X(positions_first, "", 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, "source positions: offset they count from") \
    X(positions_kind, "", 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, "source positions: 0 zig-zag, 1 two flag bits") \
    X(positions_behind, "", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, "source positions of TurboFan's code: 1: calls have theirs behind them") \
    X(nonstring, "FirstNonstringType", 64, 64, 64, 128, 128, 128, 128, 128, 128, 128, 128, "types: first that is no string") \
    X(type_function, "type_JSFunction__", U, U, U, U, U, U, U, U, U, U, U, "type of JSFunction") \
    X(type_function_last, "LastJSFunctionType", 1105, 1092, 1073, 2080, 2081, 2081, 2082, 2081, 2081, 2081, 2082, "last type of functions") \
    X(type_sfi, "type_SharedFunctionInfo__", U, U, U, U, U, U, U, U, U, U, U, "type of SharedFunctionInfo") \
    X(type_scope, "type_ScopeInfo__", U, U, U, U, U, U, U, U, U, U, U, "type of ScopeInfo") \
    X(type_script, "type_Script__", U, U, U, U, U, U, U, U, U, U, U, "type of Script") \
    X(type_bytecode, "type_BytecodeArray__", U, U, U, U, U, U, U, U, U, U, U, "type of BytecodeArray") \
    X(type_code, "type_Code__", U, U, U, U, U, U, U, U, U, U, U, "type of Code") \
    X(type_stream, "type_InstructionStream__", U, U, U, U, U, U, U, U, U, U, U, "type of InstructionStream") \
    X(type_wasm_module, "type_WasmModuleObject__", U, U, U, U, U, U, U, U, U, U, U, "type of WasmModuleObject") \
    X(type_map, "type_Map__", U, U, U, U, U, U, U, U, U, U, U, "type of Map") \
    X(type_array, "type_FixedArray__", U, U, U, U, U, U, U, U, U, U, U, "type of FixedArray") \
    X(type_bytes, "type_ByteArray__", U, U, U, U, U, U, U, U, U, U, U, "type of ByteArray") \
    X(type_trusted_bytes, "type_TrustedByteArray__", U, U, U, U, U, U, U, U, U, U, U, "type of TrustedByteArray") \
    X(type_trusted_array, "type_TrustedFixedArray__", U, U, U, U, U, U, U, U, U, U, U, "type of TrustedFixedArray") \
    X(type_protected_array, "type_ProtectedFixedArray__", U, U, U, U, U, U, U, U, U, U, U, "type of ProtectedFixedArray") \
    X(type_weak_array, "type_WeakFixedArray__", U, U, U, U, U, U, U, U, U, U, U, "type of WeakFixedArray") \
    X(type_trusted_weak_array, "type_TrustedWeakFixedArray__", U, U, U, U, U, U, U, U, U, U, U, "type of TrustedWeakFixedArray") \
    X(type_interpreter_data, "type_InterpreterData__", U, U, U, U, U, U, U, U, U, U, U, "type of InterpreterData") \
    X(type_baseline_data, "type_BaselineData__", U, U, U, U, U, U, U, U, U, U, U, "type of BaselineData") \
    X(type_wrapper, "type_SharedFunctionInfoWrapper__", U, U, U, U, U, U, U, U, U, U, U, "type of SharedFunctionInfoWrapper") \
    X(type_heap_number, "type_HeapNumber__", U, U, U, U, U, U, U, U, U, U, U, "type of HeapNumber") \
    X(type_oddball, "type_Oddball__", U, U, U, U, U, U, U, U, U, U, U, "type of Oddball") \
    X(type_symbol, "type_Symbol__", U, U, U, U, U, U, U, U, U, U, U, "type of Symbol") \
    X(type_js_array, "type_JSArray__", U, U, U, U, U, U, U, U, U, U, U, "type of JSArray") \
    X(type_proxy, "type_JSProxy__", U, U, U, U, U, U, U, U, U, U, U, "type of JSProxy") \
    X(type_global, "type_JSGlobalObject__", U, U, U, U, U, U, U, U, U, U, U, "type of JSGlobalObject") \
    X(type_global_proxy, "type_JSGlobalProxy__", U, U, U, U, U, U, U, U, U, U, U, "type of JSGlobalProxy") \
    X(type_double_array, "type_FixedDoubleArray__", U, U, U, U, U, U, U, U, U, U, U, "type of FixedDoubleArray") \
    X(map_constructor, "class_Map__constructor_or_back", 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, "Map: constructor, or the map that it was made from") \
    X(frame_entry, "frametype_EntryFrame", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "frame type: C++ calls JavaScript") \
    X(frame_construct_entry, "frametype_ConstructEntryFrame", 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, "frame type: C++ constructs") \
    X(frame_exit, "frametype_ExitFrame", 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, "frame type: JavaScript calls C++") \
    X(frame_wasm, "frametype_WasmFrame", 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 24, "frame type: WebAssembly") \
    X(frame_js_to_wasm, "frametype_JsToWasmFrame", 7, 7, 6, 6, 7, 7, 7, 7, 7, 6, 26, "frame type: JavaScript calls WebAssembly") \
    X(frame_wasm_to_js, "frametype_WasmToJsFrame", 6, 6, 5, 5, 5, 5, 5, 5, 5, 5, 25, "frame type: WebAssembly calls JavaScript") \
    X(frame_regexp, "frametype_IrregexpFrame", U, U, U, U, 27, 29, 29, 30, 31, 31, 23, "frame type: compiled regular expression") \
    X(fp_regexp, "", U, U, U, U, 32, 32, 32, 32, 32, 32, 32, "slot of a regular expression's frame: its JSRegExp, or its data (the ninth argument of compiled regular expressions)") \
    X(regexp_data, "", U, U, U, U, 24, 24, 24, 24, 24, 24, 24, "JSRegExp: its data, a FixedArray whose second element is the source; later a RegExpData") \
    X(regexp_data_source, "class_RegExpData__source", U, U, U, U, U, U, U, 16, 16, 16, 16, "RegExpData: source") \
    X(type_regexp, "type_JSRegExp__", U, U, U, U, U, U, U, U, U, U, U, "type of JSRegExp") \
    X(type_regexp_data, "type_IrRegExpData__", U, U, U, U, U, U, U, U, U, U, U, "type of IrRegExpData") \
    X(type_async_function, "type_JSAsyncFunctionObject__", U, U, U, U, U, U, U, U, U, U, U, "type of JSAsyncFunctionObject") \
    X(type_async_generator, "type_JSAsyncGeneratorObject__", U, U, U, U, U, U, U, U, U, U, U, "type of JSAsyncGeneratorObject") \
    X(type_async_request, "type_AsyncGeneratorRequest__", U, U, U, U, U, U, U, U, U, U, U, "type of AsyncGeneratorRequest") \
    X(type_promise, "type_JSPromise__", U, U, U, U, U, U, U, U, U, U, U, "type of JSPromise") \
    X(type_capability, "type_PromiseCapability__", U, U, U, U, U, U, U, U, U, U, U, "type of PromiseCapability") \
    X(type_reaction, "type_PromiseReaction__", U, U, U, U, U, U, U, U, U, U, U, "type of PromiseReaction") \
    X(type_fulfill_job, "type_PromiseFulfillReactionJobTask__", U, U, U, U, U, U, U, U, U, U, U, "type of PromiseFulfillReactionJobTask") \
    X(type_reject_job, "type_PromiseRejectReactionJobTask__", U, U, U, U, U, U, U, U, U, U, U, "type of PromiseRejectReactionJobTask") \
    X(type_thenable_job, "type_PromiseResolveThenableJobTask__", U, U, U, U, U, U, U, U, U, U, U, "type of PromiseResolveThenableJobTask") \
    X(running_microtask, "", U, 0x1408, 0x1510, 0x1928, 0x1b60, 0x1c18, 0x1cb0, 0x1d08, 0x2580, 0x25e8, 0x2640, "isolate: the microtask that runs (a root)") \
    X(reaction_next, "", 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, "PromiseReaction: next, the handlers, the promise that it settles") \
    X(frame_builtin_exit, "frametype_BuiltinExitFrame", 21, 21, 21, 22, 25, 26, 26, 26, 27, 27, 17, "frame type: a builtin in C++") \
    X(frame_construct, "frametype_ConstructFrame", 18, 18, 19, 20, 23, 23, 23, 23, 24, 24, 14, "frame type: a constructor is called") \
    X(chunk_flags, "", U, U, U, 8, 8, 8, 0, 0, 0, 0, 0, "chunk of the heap: flags") \
    X(chunk_meta, "", U, U, U, U, U, U, 8, 8, 8, 8, 8, "chunk of the heap: where its description is; before V8 12.4 in the chunk itself") \
    X(chunk_size, "", U, U, U, 0, 0, 0, 16, 48, 48, 48, 48, "description of a chunk: bytes") \
    X(chunk_heap, "", U, U, U, 16, 16, 16, 24, 64, 64, 64, 64, "description of a chunk: Heap") \
    X(chunk_begin, "", U, U, U, 24, 24, 24, 32, 72, 72, 72, 72, "description of a chunk: where objects begin") \
    X(chunk_end, "", U, U, U, 32, 32, 32, 40, 56, 56, 56, 56, "description of a chunk: where they end") \
    X(chunk_allocated, "", U, U, U, 40, 40, 40, 48, 24, 24, 24, 24, "description of a chunk: bytes of objects") \
    X(chunk_owner, "", U, U, U, 64, 64, 64, 72, 80, 80, 80, 80, "description of a chunk: space") \
    X(chunk_next, "", U, U, U, 232, 264, 240, 264, 280, 264, 272, 256, "description of a chunk: the next one of the space; the one before follows") \
    X(chunk_marks, "", U, U, U, 296, 320, 296, 320, 336, 320, 336, 320, "description of a chunk: a bit for each word, set if a live object begins there") \
    X(type_context, "", U, U, U, 207, 205, 205, 190, 221, 220, 221, 221, "first of the ten types of contexts") \
    X(type_dispatch, "", U, U, U, U, U, U, 214, 197, 189, 187, 188, "type of WasmDispatchTable") \
    X(type_imports, "", U, U, U, U, U, U, U, U, U, U, 200, "type of WasmDispatchTableForImports") \
    X(feedback_slots, "", U, U, U, 48, 56, 56, 56, 56, 48, 48, 48, "FeedbackVector: first slot") \
    X(descriptors_first, "class_DescriptorArray__header_size", U, U, U, 24, 24, 24, 24, 24, 24, 32, 32, "DescriptorArray: first descriptor") \
    X(buffer_bytes, "class_JSArrayBuffer__byte_length", U, U, U, U, U, U, U, U, U, U, U, "JSArrayBuffer: bytes") \
    X(buffer_data, "class_JSArrayBuffer__backing_store", U, U, U, U, U, U, U, U, U, U, U, "JSArrayBuffer: where they are") \
    X(type_feedback, "type_FeedbackVector__", U, U, U, U, U, U, U, U, U, U, U, "type of FeedbackVector") \
    X(type_buffer, "type_JSArrayBuffer__", U, U, U, U, U, U, U, U, U, U, U, "type of JSArrayBuffer") \
    X(type_weak_ref, "type_JSWeakRef__", U, U, U, U, U, U, U, U, U, U, U, "type of JSWeakRef") \
    X(type_weak_cell, "type_WeakCell__", U, U, U, U, U, U, U, U, U, U, U, "type of WeakCell") \
    X(smi_shift, "SmiShiftSize", 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, "31: full words; 0: compressed pointers")
/* clang-format on */

enum v8_field {
#define X(name, ...) V8_F_##name,
    V8_FIELDS(X, 0)
#undef X
        V8_NR_FIELDS
};

enum v8_builtin_class {
    V8_BUILTIN_OTHER,
    V8_BUILTIN_INTERPRETER, /* a frame with its pc here belongs to an interpreted function */
    V8_BUILTIN_HANDLER,     /* handler of a bytecode: runs in the interpreted function's frame */
    V8_BUILTIN_ENTRY,       /* C++ calls JavaScript */
    V8_BUILTIN_PROLOGUE,    /* BaselineOutOfLinePrologue: makes the frame of its caller */
    V8_BUILTIN_EXIT,        /* CEntry: calls the runtime, in C++ */
    V8_BUILTIN_DEOPT,       /* DeoptimizationEntry: takes down the frame of its caller */
    V8_BUILTIN_RESUME,      /* resumes an async function or generator behind an await */
    V8_BUILTIN_REACTION,    /* calls a callback whose result settles a promise */
    V8_BUILTIN_LEAVE,       /* BaselineLeaveFrame: is jumped to while the frame still stands */
};

/* Where the caller's registers are at each instruction (builtin.h). */
struct v8_states;

struct v8_builtin {
    uint64_t start; /* vaddr */
    uint32_t size;
    uint8_t class;
    const char *name;                 /* without "Builtins_"; lives as long as the image */
    struct v8_states *_Atomic states; /* created on first use */
};

/* A name of metadata: its first `length` bytes are a type's name. */
struct v8_type_name {
    int32_t type;
    uint32_t length;
    const char *name;
};

struct v8_machine;
struct v8_layout {
    const struct v8_machine *machine; /* whose code it is */
#define X(name, ...) int32_t name;
    V8_FIELDS(X, 0)
#undef X
    int32_t version[4]; /* major, minor, build, patch */
    const char *node;   /* Node version of the table column that was used */
    int32_t column;     /* its number: 0 is Node 12 */
    bool verified;      /* true: the table has this very minor version; false: the next lower column
                           was used */
    uint64_t metadata[(V8_NR_FIELDS + 63) / 64]; /* one bit per field: from metadata, not from the
                                                    table */
    uint64_t blob, blob_size;                    /* place of the embedded builtins, vaddr */
    const uint8_t *code;                         /* the blob's bytes; live as long as the image */
    struct v8_builtin *builtins; /* by address; NULL: their names and limits are unknown */
    size_t nr_builtins;
    /* Index by (address - blob) >> block_shift: how many builtins begin up to the end of the
     * block. */
    uint32_t *begun;
    unsigned block_shift;
    /* Sizes of bytecodes (with operands): three tables, for single, double and quadruple operands.
     * Each has `nr_bytecodes` numbers of `bytecode_width` bytes. NULL: not known. */
    const uint8_t *bytecode_sizes;
    uint32_t nr_bytecodes, bytecode_width;
    /* The instance types that metadata names, by number. Names live as long as the image. */
    struct v8_type_name *types;
    size_t nr_types;
};

/* Returns the size in bytes of a bytecode without its prefix; 0: there is no such bytecode.
 * `table`: 0 to 2. */
static inline int32_t v8_bytecode_size(const struct v8_layout *l, unsigned table, uint8_t op)
{
    return op < l->nr_bytecodes
               ? l->bytecode_sizes[(size_t)(table * l->nr_bytecodes + op) * l->bytecode_width]
               : 0;
}

/* An image as discovery sees it. Addresses are the module's own (vaddr). Names and bytes must
 * outlive the layout. */
struct v8_symbol {
    const char *name;
    uint64_t address, size;
};
struct v8_segment {
    uint64_t address, size;
    bool executable, writable;
};
struct v8_image {
    const char *name; /* for error messages */
    const struct v8_machine *machine;
    /* Returns the next symbol that may be V8's, in any order; some symbols may come twice.
     * false: no more. `index` is 0 at first, later the value that the last call left. Without
     * `all` it searches only where V8's symbols mostly are; if they are not enough, the caller
     * asks for all. */
    bool (*symbol)(void *context, bool all, size_t *index, struct v8_symbol *ret);
    /* NULL: the bytes are not in the file (for metadata this means 0: such symbols are in .bss). */
    const uint8_t *(*bytes)(void *context, uint64_t address, size_t size);
    /* `word` and `segment` both NULL: builtins without symbols are not searched. `word` returns the
     * word at an address as the loader leaves it (relocated); 0: there is none. */
    uint64_t (*word)(void *context, uint64_t address);
    /* Gives the index-th loaded segment, as far as its bytes are in the file. false: no more. */
    bool (*segment)(void *context, size_t index, struct v8_segment *ret);
    void *context;
};

/* Returns 1 and the layout (to be freed with v8_layout_free), 0 when the image has no V8, -1 when
 * it has a V8 that is not supported: too old, with compressed pointers, or without metadata. The
 * error says which. */
int v8_layout_create(const struct v8_image *image, struct v8_layout **ret, struct error *err);
void v8_layout_free(struct v8_layout *l);

/* Returns the builtin at a vaddr; NULL: none. */
struct v8_builtin *v8_builtin_find(const struct v8_layout *l, uint64_t vaddr);

struct v8_field_view {
    const char *name, *symbol, *text;
    int32_t value;
    bool metadata; /* the value comes from the symbol */
};
struct v8_field_view v8_layout_field(const struct v8_layout *l, enum v8_field field);

#endif
