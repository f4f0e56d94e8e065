/* MySQL's types and text forms, what is refused, and what URLs say; and that what is declared of MariaDB's
 * client library is what its own header has. */
#include <stddef.h>
#include <string.h>

#include "ingest/mysql.h"
#include "support/source_values.h"

#if __has_include(<mariadb/mysql.h>)
#include <mariadb/mysql.h>
#define HAS_HEADER 1
#else
#define HAS_HEADER 0
#endif

/* ---- Values ------------------------------------------------------------------------------------------ */

static weir_ingest__value decode(weir_ingest__my_form form, const char *text, size_t size) {
    weir_ingest__value value = {0};
    assert_null(weir_ingest__my_decode(form, text, size, &value));
    return value;
}

static weir_ingest__value read(weir_ingest__my_form form, const char *text) {
    return decode(form, text, strlen(text));
}

static void test_numbers(void **state) {
    (void)state;
    assert_integer(read(WEIR_INGEST__MY_AS_EXACT, "-9223372036854775808"), WEIR_INGEST__INT, INT64_MIN);
    assert_integer(read(WEIR_INGEST__MY_AS_EXACT, "00000042"), WEIR_INGEST__INT, 42);
    assert_integer(read(WEIR_INGEST__MY_AS_EXACT, "19.00"), WEIR_INGEST__INT, 19);
    assert_real(read(WEIR_INGEST__MY_AS_EXACT, "18446744073709551615"), 18446744073709551616.0);
    assert_real(read(WEIR_INGEST__MY_AS_EXACT, "-0.0001"), -0.0001);
    assert_real(read(WEIR_INGEST__MY_AS_REAL, "1.7976931348623157e308"), 1.7976931348623157e308);
    assert_integer(decode(WEIR_INGEST__MY_AS_BITS, "", 0), WEIR_INGEST__INT, 0);
    assert_integer(decode(WEIR_INGEST__MY_AS_BITS, "\1\2", 2), WEIR_INGEST__INT, 258);
    assert_real(decode(WEIR_INGEST__MY_AS_BITS, "\377\377\377\377\377\377\377\377", 8),
                18446744073709551616.0);
}

static void test_texts_and_times(void **state) {
    (void)state;
    assert_int_equal(read(WEIR_INGEST__MY_AS_TEXT, "x").type, WEIR_INGEST__TEXT);
    assert_int_equal(read(WEIR_INGEST__MY_AS_BYTES, "x").type, WEIR_INGEST__BLOB);
    assert_integer(read(WEIR_INGEST__MY_AS_TIME, "1970-01-02"), WEIR_INGEST__TIMESTAMP, INT64_C(86400000000));
    assert_integer(read(WEIR_INGEST__MY_AS_TIME, "1969-12-31 23:59:59.999999"), WEIR_INGEST__TIMESTAMP, -1);
}

static void test_refused_values(void **state) {
    (void)state;
    static const struct {
        weir_ingest__my_form form;
        const char *text;
    } refused[] = {
        {WEIR_INGEST__MY_AS_EXACT, ""},          {WEIR_INGEST__MY_AS_EXACT, "1x"},
        {WEIR_INGEST__MY_AS_REAL, "0x1p3"},      {WEIR_INGEST__MY_AS_TIME, "0000-00-00"},
        {WEIR_INGEST__MY_AS_TIME, "2024-00-10"}, {WEIR_INGEST__MY_AS_BITS, "123456789"},
        {WEIR_INGEST__MY_AS_FLOAT, "1"},         {WEIR_INGEST__MY_AS_GEOMETRY, "POINT(1 2)"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        weir_ingest__value value;
        assert_non_null(
            weir_ingest__my_decode(refused[i].form, refused[i].text, strlen(refused[i].text), &value));
    }
}

/* The same column by its name in the catalog, and as a column of an answer. */
static void test_types_have_two_names(void **state) {
    (void)state;
    static const struct {
        const char *name, *whole;
        weir_ingest__my_field field;
    } pairs[] = {
        {"tinyint", "tinyint(1)", {.type = WEIR_INGEST__MY_TINY, .length = 1}},
        {"tinyint", "tinyint(4)", {.type = WEIR_INGEST__MY_TINY, .length = 4}},
        {"bigint", "bigint(20) unsigned", {.type = WEIR_INGEST__MY_LONGLONG, .length = 20}},
        {"year", "year(4)", {.type = WEIR_INGEST__MY_YEAR, .length = 4}},
        {"decimal", "decimal(5,2)", {.type = WEIR_INGEST__MY_NEWDECIMAL, .length = 7}},
        {"float", "float", {.type = WEIR_INGEST__MY_FLOAT, .length = 12}},
        {"double", "double", {.type = WEIR_INGEST__MY_DOUBLE, .length = 22}},
        {"date", "date", {.type = WEIR_INGEST__MY_DATE, .length = 10}},
        {"timestamp", "timestamp", {.type = WEIR_INGEST__MY_TIMESTAMP, .length = 19}},
        {"time", "time", {.type = WEIR_INGEST__MY_TIME, .charsetnr = WEIR_INGEST__MY_BINARY_CHARSET}},
        {"json", "json", {.type = WEIR_INGEST__MY_JSON, .charsetnr = WEIR_INGEST__MY_BINARY_CHARSET}},
        {"bit", "bit(1)", {.type = WEIR_INGEST__MY_BIT, .length = 1}},
        {"bit", "bit(9)", {.type = WEIR_INGEST__MY_BIT, .length = 9}},
        {"enum", "enum('a')", {.type = 254, .charsetnr = 45, .flags = WEIR_INGEST__MY_ENUM_FLAG}},
        {"varchar", "varchar(9)", {.type = 253, .charsetnr = 45}},
        {"varbinary", "varbinary(9)", {.type = 253, .charsetnr = WEIR_INGEST__MY_BINARY_CHARSET}},
        {"point", "point", {.type = WEIR_INGEST__MY_GEOMETRY}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        weir_ingest__my_type named = weir_ingest__my_type_named(pairs[i].name, pairs[i].whole);
        weir_ingest__my_type answered = weir_ingest__my_type_of(&pairs[i].field);
        assert_int_equal(named.form, answered.form);
        assert_int_equal(named.declared, answered.declared);
    }
}

/* ---- URLs -------------------------------------------------------------------------------------------- */

static void assert_text(const char *text, const char *expected) {
    assert_int_equal(text != NULL, expected != NULL);
    if (expected)
        assert_string_equal(text, expected);
}

static void test_urls(void **state) {
    (void)state;
    static const struct {
        const char *url, *user, *password, *host, *database, *socket;
        unsigned port;
        bool needs_tls, verifies_tls;
    } cases[] = {
        {.url = "mysql://"},
        {.url = "mysql:///d", .database = "d"},
        {.url = "mariadb://h", .host = "h"},
        {.url = "mysql://u@h:3307/d", .user = "u", .host = "h", .database = "d", .port = 3307},
        {.url = "mysql://u:p%40%2F@h/d%20e", .user = "u", .password = "p@/", .host = "h", .database = "d e"},
        {.url = "mysql://u:a@b:c@h/", .user = "u", .password = "a@b:c", .host = "h"},
        {.url = "mysql://:p@[fe80::1%251]:99/d",
         .password = "p",
         .host = "fe80::1%1",
         .database = "d",
         .port = 99},
        {.url = "mysql://u:@/d?socket=/a%26b&ssl-mode=REQUIRED",
         .user = "u",
         .password = "",
         .database = "d",
         .socket = "/a&b",
         .needs_tls = true},
        {.url = "mysql://h?ssl-mode=verify_identity", .host = "h", .needs_tls = true, .verifies_tls = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_ingest__my_url url;
        assert_int_equal(weir_ingest__my_url_read(weir_env_default(), cases[i].url, &url, NULL), WEIR_OK);
        assert_text(url.user, cases[i].user);
        assert_text(url.password, cases[i].password);
        assert_text(url.host, cases[i].host);
        assert_text(url.database, cases[i].database);
        assert_text(url.socket, cases[i].socket);
        assert_int_equal(url.port, cases[i].port);
        assert_true(url.needs_tls == cases[i].needs_tls && url.verifies_tls == cases[i].verifies_tls);
        weir__release(weir_env_default(), url.memory);
    }
}

/* ---- The library's header ---------------------------------------------------------------------------- */

static void test_header(void **state) {
    (void)state;
#if HAS_HEADER
#define SAME_PLACE(name) assert_int_equal(offsetof(weir_ingest__my_field, name), offsetof(MYSQL_FIELD, name))
    assert_int_equal(sizeof(weir_ingest__my_field), sizeof(MYSQL_FIELD));
    SAME_PLACE(name), SAME_PLACE(org_name), SAME_PLACE(org_table), SAME_PLACE(db), SAME_PLACE(length);
    SAME_PLACE(flags), SAME_PLACE(charsetnr), SAME_PLACE(type);
    static const int pairs[][2] = {
        {WEIR_INGEST__MY_DECIMAL, MYSQL_TYPE_DECIMAL},
        {WEIR_INGEST__MY_TINY, MYSQL_TYPE_TINY},
        {WEIR_INGEST__MY_SHORT, MYSQL_TYPE_SHORT},
        {WEIR_INGEST__MY_LONG, MYSQL_TYPE_LONG},
        {WEIR_INGEST__MY_FLOAT, MYSQL_TYPE_FLOAT},
        {WEIR_INGEST__MY_DOUBLE, MYSQL_TYPE_DOUBLE},
        {WEIR_INGEST__MY_TIMESTAMP, MYSQL_TYPE_TIMESTAMP},
        {WEIR_INGEST__MY_LONGLONG, MYSQL_TYPE_LONGLONG},
        {WEIR_INGEST__MY_INT24, MYSQL_TYPE_INT24},
        {WEIR_INGEST__MY_DATE, MYSQL_TYPE_DATE},
        {WEIR_INGEST__MY_TIME, MYSQL_TYPE_TIME},
        {WEIR_INGEST__MY_DATETIME, MYSQL_TYPE_DATETIME},
        {WEIR_INGEST__MY_YEAR, MYSQL_TYPE_YEAR},
        {WEIR_INGEST__MY_BIT, MYSQL_TYPE_BIT},
        {WEIR_INGEST__MY_JSON, MYSQL_TYPE_JSON},
        {WEIR_INGEST__MY_NEWDECIMAL, MYSQL_TYPE_NEWDECIMAL},
        {WEIR_INGEST__MY_GEOMETRY, MYSQL_TYPE_GEOMETRY},
        {WEIR_INGEST__MY_ENUM_FLAG, ENUM_FLAG},
        {WEIR_INGEST__MY_OPT_CONNECT_TIMEOUT, MYSQL_OPT_CONNECT_TIMEOUT},
        {WEIR_INGEST__MY_READ_DEFAULT_GROUP, MYSQL_READ_DEFAULT_GROUP},
        {WEIR_INGEST__MY_SET_CHARSET_NAME, MYSQL_SET_CHARSET_NAME},
        {WEIR_INGEST__MY_OPT_LOCAL_INFILE, MYSQL_OPT_LOCAL_INFILE},
        {WEIR_INGEST__MY_OPT_RECONNECT, MYSQL_OPT_RECONNECT},
        {WEIR_INGEST__MY_OPT_SSL_VERIFY, MYSQL_OPT_SSL_VERIFY_SERVER_CERT},
        {WEIR_INGEST__MY_OPT_SSL_KEY, MYSQL_OPT_SSL_KEY},
        {WEIR_INGEST__MY_OPT_SSL_CERT, MYSQL_OPT_SSL_CERT},
        {WEIR_INGEST__MY_OPT_SSL_CA, MYSQL_OPT_SSL_CA},
        {WEIR_INGEST__MY_OPT_SSL_ENFORCE, MYSQL_OPT_SSL_ENFORCE},
        {WEIR_INGEST__MY_OPT_MAX_ALLOWED_PACKET, MYSQL_OPT_MAX_ALLOWED_PACKET},
        {WEIR_INGEST__MY_OPT_NONBLOCK, MYSQL_OPT_NONBLOCK},
        {WEIR_INGEST__MY_OPT_RESTRICTED_AUTH, MARIADB_OPT_RESTRICTED_AUTH},
        {WEIR_INGEST__MY_TLS_LIBRARY, MARIADB_TLS_LIBRARY},
        {WEIR_INGEST__MY_WAIT_READ, MYSQL_WAIT_READ},
        {WEIR_INGEST__MY_WAIT_WRITE, MYSQL_WAIT_WRITE},
        {WEIR_INGEST__MY_WAIT_EXCEPT, MYSQL_WAIT_EXCEPT},
        {WEIR_INGEST__MY_WAIT_TIMEOUT, MYSQL_WAIT_TIMEOUT},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(pairs[i][0], pairs[i][1]);
#else
    skip_because("no header of MariaDB's client library here (Debian: libmariadb-dev)");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),        cmocka_unit_test(test_texts_and_times),
        cmocka_unit_test(test_refused_values), cmocka_unit_test(test_types_have_two_names),
        cmocka_unit_test(test_urls),           cmocka_unit_test(test_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
