/* SPDX-License-Identifier: GPL-2.0-only */
/* The script's text tells which class a function is of. */
#include "unwind/v8/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reads the text in pieces of `piece` characters, as UTF-16 if `wide`. */
static struct v8_source *read_text(const char *text, size_t piece, bool wide)
{
    struct v8_source *s = v8_source_create();
    size_t size = strlen(text), at = 0;
    assert_non_null(s);
    uint8_t *units = calloc(size + 1, 2);
    assert_non_null(units);
    for (size_t i = 0; i < size; i++)
        units[wide ? 2 * i : i] = (uint8_t)text[i];
    for (; at < size; at += piece) {
        size_t nr = size - at < piece ? size - at : piece;
        assert_true(v8_source_take(s, units + (wide ? 2 * at : at), nr, wide));
    }
    v8_source_end(s);
    free(units);
    return s;
}

/* Expects `want` as the name of the function that V8 calls `name`; NULL: it has its own name only.
 * Its parameters begin at the last character of `place` in the text, a "(". */
static void assert_name(const char *text, const char *place, const char *name, const char *want)
{
    const char *found = strstr(text, place);
    assert_non_null(found);
    int32_t start = (int32_t)(found - text + (ptrdiff_t)strlen(place)) - 1;
    for (size_t piece = 1; piece < 10; piece += 4) {
        struct v8_source *s = read_text(text, piece, piece == 5);
        struct text got = {0};
        assert_int_equal(v8_source_name(s, start, name, strlen(name), &got), want != NULL);
        text_char(&got, 0);
        assert_string_equal(got.at, want ? want : "");
        text_free(&got);
        v8_source_free(s);
    }
}

static void test_members(void **state)
{
    (void)state;
    static const char text[] =
        "#!/usr/bin/env node ' {\n"
        "class Foo extends mix({a: 1}, class {}) { constructor(x) { super(x); }\n"
        "  m(f) { return f() / 2 /f.g; } static s(f) {} get v() { return 1 } set v(w) {}\n"
        "  #p(a = { b(c) {} }) { x(a); if (a) /[/\\](]}{/.test(a); } async am(z) {}\n"
        "  *gen(q) {} async *agen(r) {} static { (function inner(t) {})(); } ['c' + 1](u) {}\n"
        "  field = (y) => { g(y) }; other = function fe(n) {}\n  if(k) {} get(l) {} in(o) {} }\n";
    assert_name(text, "constructor(", "Foo", "new Foo");
    assert_name(text, " m(", "m", "Foo.m");
    assert_name(text, "s(", "s", "Foo.s");
    assert_name(text, "get v(", "get v", "Foo.get v");
    assert_name(text, "set v(", "set v", "Foo.set v");
    assert_name(text, "#p(", "#p", "Foo.#p");
    assert_name(text, " b(", "b", NULL); /* of an object in the parameters */
    assert_name(text, "async am(", "am", "Foo.am");
    assert_name(text, "*gen(", "gen", "Foo.gen");
    assert_name(text, "agen(", "agen", "Foo.agen");
    assert_name(text, "inner(", "inner", NULL);
    assert_name(text, "'c' + 1](", "Foo", "Foo.[computed]");
    assert_name(text, "field = (", "field", "Foo.field");
    assert_name(text, "fe(", "fe", NULL);
    assert_name(text, "if(", "if", "Foo.if");
    assert_name(text, "get(", "get", "Foo.get");
    assert_name(text, "in(", "in", "Foo.in");
    assert_name(text, "x(", "x", NULL); /* a call */
    assert_name(text, " m(", "n", NULL);
    assert_name(text, "constructor(", "constructor", "Foo.constructor"); /* a static method */
}

static void test_symbols(void **state)
{
    (void)state;
    static const char text[] =
        "class Foo { *[Symbol.iterator](a) {} static [ Symbol /**/ . hasInstance ](b) {}\n"
        "  get [Symbol.toStringTag](c) {} async *[Symbol.asyncIterator](d) {} [Symbol.a.b](e) {}\n"
        "  [x[Symbol.match]](f) {} [Symbol](g) {} [my.Symbol.match](h) {} [Symbol['match']](i) {} "
        "}\n"
        "const it = { [Symbol.iterator](j) { return x[Symbol.iterator](k) },\n"
        "  set [Symbol.split](l) {}, get: [Symbol.split], m(m) {}, ['a'](n) {} }\n"
        "use(class { [Symbol.match](o) {} }); if (x) { x[Symbol.iterator](p) }\n";
    assert_name(text, "Symbol.iterator](", "", "Foo.[Symbol.iterator]");
    assert_name(text, "Symbol.iterator](", "Foo", "Foo.[Symbol.iterator]");
    assert_name(text, "hasInstance ](", "Foo", "Foo.[Symbol.hasInstance]");
    assert_name(text, "toStringTag](", "Foo", "Foo.get [Symbol.toStringTag]");
    assert_name(text, "asyncIterator](", "Foo", "Foo.[Symbol.asyncIterator]");
    assert_name(text, "a.b](", "Foo", "Foo.[computed]");
    assert_name(text, "x[Symbol.match]](", "Foo", "Foo.[computed]");
    assert_name(text, "[Symbol](", "Foo", "Foo.[computed]");
    assert_name(text, "my.Symbol.match](", "Foo", "Foo.[computed]");
    assert_name(text, "Symbol['match']](", "Foo", "Foo.[computed]");
    assert_name(text, "{ [Symbol.iterator](", "it", "[Symbol.iterator]");
    assert_name(text, "x[Symbol.iterator](", "", NULL); /* a call */
    assert_name(text, "set [Symbol.split](", "it", "set [Symbol.split]");
    assert_name(text, " m(", "m", NULL);
    assert_name(text, "['a'](", "it", NULL);
    assert_name(text, "{ [Symbol.match](", "", "[Symbol.match]");
    assert_name(text, "{ x[Symbol.iterator](", "", NULL);
}

static void test_classes(void **state)
{
    (void)state;
    static const char text[] =
        "const A = class { m(f) {} }; exports.B = class { m2(f) {} }; const o = { class: 1, "
        "x(class_) {}, k: class { m3(f) {} } };\nclass D extends A {}\n"
        "class Outer { f() { return class Inner { g() {} }; } h() {} }\n"
        "`${ { a: `}` }.a } class T { i(j) {} }`; var e = o.class; /* class X { */ // {\n"
        "'class Y { \\\r\n \\' {'; export default class { z() {} }\n";
    assert_name(text, " m(", "m", "A.m");
    assert_name(text, "m2(", "m2", NULL);
    assert_name(text, "m3(", "m3", NULL);
    assert_name(text, "x(", "x", NULL);
    /* not at its "class" */
    assert_name(text, "class D", "D", NULL);
    assert_name(text, "f() { return class Inner { g(", "g", "Inner.g");
    assert_name(text, "Outer { f(", "f", "Outer.f");
    assert_name(text, "h(", "h", "Outer.h");
    assert_name(text, "i(", "i", NULL);
    assert_name(text, " z(", "z", NULL);
    assert_name("  class D extends A {}", "  c", "D", "new D");
}

/* A text that is not understood to its very end gives no name. */
static void test_doubt(void **state)
{
    (void)state;
    assert_name("class A { m(f) {} }", " m(", "m", "A.m");
    assert_name("class A { m(f) {} ", " m(", "m", NULL);
    assert_name("class A { m(f) {} } )", " m(", "m", NULL);
    assert_name("class A { m(f) {} } (]", " m(", "m", NULL);
    assert_name("class A { m(f) {} } 'x\n", " m(", "m", NULL);
    assert_name("class A { m(f) {} } `x", " m(", "m", NULL);
    assert_name("class A { m(f) {} } /* x", " m(", "m", NULL);
    assert_name("class A { m(f) {} } x = /a\n/", " m(", "m", NULL);
    assert_name("class A { m(f) {} } class B", " m(", "m", NULL);
    assert_name("class A { m(f) {} } a = b++ / c; d = e) / 1", " m(", "m", NULL);
    assert_name("class A { m(f) {} } a = b++ / c; (d) / '1' / 2; // {", " m(", "m", "A.m");
    assert_name("class A { m(f) {} } while (a) /'/.test(b)", " m(", "m", "A.m");
    assert_name("class A { m(f) {} } for await (const x of y) /'/.test(b)", " m(", "m", "A.m");
    assert_name("class A { m(f) {} } f(...class { n() {} }.o, .../'/)", " m(", "m", "A.m");
}

/* Returns whether the function `name`, whose parameters begin at the last character of `place` in
 * `whose`, can be of the text. */
static bool fits(const char *text, const char *whose, const char *place, const char *name)
{
    const char *found = strstr(whose, place);
    assert_non_null(found);
    int32_t start = (int32_t)(found - whose + (ptrdiff_t)strlen(place)) - 1;
    struct v8_source *s = read_text(text, 7, false);
    bool is = v8_source_fits(s, start, start + 2, name, strlen(name));
    v8_source_free(s);
    return is;
}

/* Every function fits its own text, however it is written. */
static void test_fits(void **state)
{
    (void)state;
    static const char text[] =
        "function f(a) {} x = function(b) {}; var g = c => c, h = (d) => d, i = async (e) => e;\n"
        "const o = { m(f) {}, get v() { return 1 }, if(k) {}, 'a b'(l) {}, [c](m) {}, catch(n) "
        "{},\n"
        "  async *am(p) {}, async(q) {}, get(r) {}, 1(s) {}, async get(t) {}, set w(u) {} };\n"
        "class A { constructor(x) {} #p(y) {} static s(z) {} z = (w) => 1 } class B extends A {}\n"
        "function \\u0041(e) {} (function /* ) { */ n /* ( */ (b) {}); f(async z => z, {});\n"
        "function* gen\n(g) {} export default async function(h) {} for (const x of y) f(x, y => y)";
    static const struct {
        const char *place, *name;
    } functions[] = {{"function f(", "f"}, {"x = function(", "x"},
                     {"g = c", "g"},       {"h = (", "h"},
                     {"async (", "i"},     {"i = a", "i"},
                     {" m(", "m"},         {"get v(", "get v"},
                     {"get v(", "v"},      {"if(", "if"},
                     {"'a b'(", "a b"},    {"[c](", ""},
                     {"catch(", "catch"},  {"am(", "am"},
                     {"async(", "async"},  {"get(", "get"},
                     {"1(", "1"},          {"async get(", "get"},
                     {"set w(", "set w"},  {"constructor(", "A"},
                     {"#p(", "#p"},        {"static s(", "s"},
                     {"z = (", "z"},       {"} c", "B"},
                     {"u0041(", "A"},      {"/* ( */ (", "n"},
                     {"f(async z", ""},    {"}); f(a", ""},
                     {"gen\n(", "gen"},    {"async function(", "default"},
                     {"x, y", ""}};
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
        assert_true(fits(text, text, functions[i].place, functions[i].name));
    assert_false(fits(text, text, "function f(", "g")); /* the name of another function */
    assert_false(fits(text, text, " x", "x"));          /* no function begins there */
    assert_false(fits(text, text, ") {", "f"));
    struct v8_source *s = read_text(text, 7, false);
    assert_true(v8_source_fits(s, 0, sizeof(text) - 1, "", 0)); /* the whole text */
    assert_false(v8_source_fits(s, 0, sizeof(text), "", 0));
    assert_false(v8_source_fits(s, 0, sizeof(text) - 2, "", 0));
    assert_true(v8_source_fits(s, -1, -1, "", 0));
    v8_source_free(s);
    assert_true(fits("f(", text, "function f(", "g")); /* it cannot be told */
}

/* In the text that came to another's place all brackets close, too: `middle` was reported at 3:41
 * of it. */
static void test_another_text(void **state)
{
    (void)state;
    static const char text[] = "function outer(n, x) { return middle(n, x) + 1; }\n"
                               "function middle(n, x) { return victim(x, n) + 1; }\n",
                      evaluated[] =
                          "(function anonymous(\n) {\nreturn function victim(x, n) { let s = 0; "
                          "for (let i = 0; i < 300; i++) s += x * i; return s }\n})";
    assert_true(fits(text, text, "middle(n, x) + 1; }\nfunction middle(", "middle"));
    assert_false(fits(evaluated, text, "middle(n, x) + 1; }\nfunction middle(", "middle"));
    assert_true(fits(evaluated, evaluated, "victim(", "victim"));
}

/* Damaged text: no name reaches out of the text, and only the given text is read. */
static void test_damaged(void **state)
{
    (void)state;
    static const char alphabet[] = "class Ab{}()[]=>`$'\"/\\*.;:,\n#+ getconstructor";
    uint64_t seed = 1;
    for (unsigned round = 0; round < 3000; round++) {
        char text[200];
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            text[i] = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
        }
        text[sizeof(text) - 1] = 0;
        struct v8_source *s = read_text(text, 1 + round % 50, round & 1);
        for (int32_t at = -1; at <= (int32_t)sizeof(text); at++) {
            struct text got = {0};
            (void)v8_source_name(s, at, "A", 1, &got);
            (void)v8_source_name(s, at, "", 0, &got);
            (void)v8_source_fits(s, at, at + 1, "A", 1);
            assert_true(got.size < sizeof(text));
            text_free(&got);
        }
        v8_source_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members), cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_fits),    cmocka_unit_test(test_another_text),
        cmocka_unit_test(test_classes), cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
