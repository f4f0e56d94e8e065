/* Writes the demo shop: see demo_shop.h. Orders are made day by day; what happened to an order (its lines,
 * when they arrived, what was said of them) is made with it. Customers and products come in the order of
 * their numbers, so that "who was there on this day" is a division and nothing has to be remembered. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "demo_shop.h"

const char *const demo_table_names[DEMO_TABLES] = {
    "categories", "stores", "employees", "customers", "products", "orders", "order_items", "reviews",
};

#define APPLICATION_ID "0x77656972" /* how a demo shop is known for one */

enum {
    SECONDS_PER_DAY = 86400,
    FIRST_DAY = 18993, /* 2022-01-01 */
    DAYS = 1096,       /* up to 2024-12-31 */
    LAST_DAY = FIRST_DAY + DAYS,
    EARLY_DAYS = 365, /* how long before the first day customers could sign up */
};

static const char declarations[] =
    "PRAGMA application_id = " APPLICATION_ID ";"
    "CREATE TABLE categories (category TEXT PRIMARY KEY, parent TEXT REFERENCES categories(category),"
    " description TEXT);"
    "CREATE TABLE stores (store_code TEXT PRIMARY KEY, city TEXT, floor_area REAL, opened_at DATE);"
    "CREATE TABLE employees (employee_id INTEGER PRIMARY KEY, manager_id INTEGER REFERENCES"
    " employees(employee_id), store_code TEXT REFERENCES stores(store_code), name TEXT, role TEXT, salary "
    "REAL,"
    " hired_at DATE, left_at DATE);"
    "CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, email TEXT, city TEXT,"
    " birth_year INTEGER, newsletter BOOLEAN, referred_by INTEGER REFERENCES customers(customer_id),"
    " signup_at TIMESTAMP);"
    "CREATE TABLE products (product_id INTEGER PRIMARY KEY, category TEXT REFERENCES categories(category),"
    " name TEXT, description TEXT, price REAL, weight_kg REAL, introduced_at DATE);"
    "CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES "
    "customers(customer_id),"
    " store_code TEXT REFERENCES stores(store_code), employee_id INTEGER REFERENCES employees(employee_id),"
    " ordered_at TIMESTAMP, promised_at TIMESTAMP, delivered_at TIMESTAMP, status TEXT, closed_at TIMESTAMP,"
    " carrier TEXT, payment TEXT, total REAL);"
    "CREATE TABLE order_items (order_id INTEGER REFERENCES orders(order_id), line INTEGER,"
    " product_id INTEGER REFERENCES products(product_id), quantity INTEGER, unit_price REAL, added_at "
    "TIMESTAMP,"
    " returned BOOLEAN, settled_at TIMESTAMP, PRIMARY KEY (order_id, line));"
    "CREATE TABLE reviews (review_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES "
    "customers(customer_id),"
    " product_id INTEGER REFERENCES products(product_id), rating INTEGER, title TEXT, body TEXT,"
    " reviewed_at INTEGER);";

static const char indexes[] = "CREATE INDEX orders_by_customer ON orders (customer_id, ordered_at);";

static const char *const insertions[DEMO_TABLES] = {
    "INSERT INTO categories VALUES (?, ?, ?)",
    "INSERT INTO stores VALUES (?, ?, ?, ?)",
    "INSERT INTO employees VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO order_items VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO reviews VALUES (?, ?, ?, ?, ?, ?, ?)",
};

typedef struct shop {
    sqlite3 *database;
    sqlite3_stmt *insert[DEMO_TABLES];
    int fault; /* SQLite's first, which sticks */
    demo_counts *counts;
    uint64_t stores, employees, customers, products, orders;
    uint64_t expected_rows;
    demo_progress progress;
    void *progress_context;
} shop;

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* A row that is being filled, column after column. */
typedef struct row {
    shop *shop;
    unsigned table;
    int column;
    char times[5][20];
    int times_used;
} row;

static row begin_row(shop *s, unsigned table) {
    return (row){.shop = s, .table = table};
}

static void note(shop *s, int result) {
    if (s->fault == SQLITE_OK && result != SQLITE_OK)
        s->fault = result;
}

static sqlite3_stmt *next_column(row *r) {
    r->column++;
    return r->shop->insert[r->table];
}

/* What a negative number, and a text that is NULL, become. */
enum { NOTHING = -1 };

static void put_int(row *r, int64_t value) {
    sqlite3_stmt *statement = next_column(r);
    note(r->shop, value < 0 ? sqlite3_bind_null(statement, r->column)
                            : sqlite3_bind_int64(statement, r->column, value));
}

/* Money and measures: hundredths as a real number, which division rounds the same way everywhere. */
static void put_hundredths(row *r, int64_t hundredths) {
    sqlite3_stmt *statement = next_column(r);
    note(r->shop, hundredths < 0 ? sqlite3_bind_null(statement, r->column)
                                 : sqlite3_bind_double(statement, r->column, (double)hundredths / 100.0));
}

/* The text must live until end_row. */
static void put_text(row *r, const char *text) {
    sqlite3_stmt *statement = next_column(r);
    note(r->shop, sqlite3_bind_text(statement, r->column, text, -1, SQLITE_STATIC));
}

static void end_row(row *r) {
    shop *s = r->shop;
    sqlite3_stmt *statement = s->insert[r->table];
    if (s->fault == SQLITE_OK && sqlite3_step(statement) != SQLITE_DONE)
        note(s, sqlite3_errcode(s->database));
    (void)sqlite3_reset(statement);
    s->counts->rows[r->table]++;
    s->counts->total++;
    if (s->progress && s->counts->total % 16384 == 0)
        s->progress(s->progress_context, s->counts->total, s->expected_rows);
}

/* ---- Dates ------------------------------------------------------------------------------------------- */

/* The first `size` characters of a time as text; it is in seconds since 1970. By hand: strftime would take a
 * tenth of the time of the whole demo. */
static void put_moment(row *r, int64_t seconds, size_t size) {
    char *text = r->times[r->times_used++];
    struct tm parts;
    time_t moment = (time_t)seconds;
    gmtime_r(&moment, &parts);
    const int year = 1900 + parts.tm_year;
    const int pairs[] = {year / 100,    year % 100,   parts.tm_mon + 1, parts.tm_mday,
                         parts.tm_hour, parts.tm_min, parts.tm_sec};
    static const int places[] = {0, 2, 5, 8, 11, 14, 17};
    memcpy(text, "YYYY-MM-DD hh:mm:ss", size);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        text[places[i]] = (char)('0' + pairs[i] / 10);
        text[places[i] + 1] = (char)('0' + pairs[i] % 10);
    }
    text[size] = 0;
    put_text(r, seconds < 0 ? NULL : text);
}

static void put_date(row *r, int64_t day) {
    put_moment(r, day * SECONDS_PER_DAY, 10);
}

static void put_time(row *r, int64_t seconds) {
    put_moment(r, seconds, 19);
}

/* A time of day when people are up: the mean of two draws between 7 and 23 o'clock. */
static int64_t waking_second(demo_draws *draws) {
    return 7 * 3600 + (int64_t)(demo_below(draws, 16 * 3600) + demo_below(draws, 16 * 3600)) / 2;
}

/* ---- Things that several tables know ----------------------------------------------------------------- */

/* A product's price and worth, whichever row asks. */
typedef struct product {
    int64_t price_cents;
    int quality; /* -1, 0 or 1 */
    bool is_heavy;
} product;

enum { ASPECT_PRODUCT = DEMO_TABLES, ASPECT_CUSTOMER }; /* draws that belong to no table */

static product product_of(uint64_t number) {
    demo_draws draws = demo_draws_of(ASPECT_PRODUCT, number);
    uint32_t spread = demo_below(&draws, 1000);
    return (product){
        .price_cents = 299 + (int64_t)spread * spread / 400 * 10,
        .quality = (int)demo_below(&draws, 3) - 1,
        .is_heavy = demo_chance(&draws, 150),
    };
}

static int64_t signup_day(const shop *s, uint64_t customer) {
    return FIRST_DAY - EARLY_DAYS - 1 + (int64_t)(customer * (DAYS + EARLY_DAYS) / s->customers);
}

/* Of `range` things, the first ones most often: the density falls with the square root of the place. */
static uint64_t skewed(demo_draws *draws, uint64_t range) {
    uint64_t u = demo_draw(draws);
    return (uint64_t)(((unsigned __int128)(u * u >> 32) * range) >> 32);
}

/* One order in 64 is by one of four wholesale customers; others lapse some day and then order no more, most
 * of the time. */
static uint64_t pick_customer(const shop *s, demo_draws *draws, int64_t day) {
    if (demo_chance(draws, 16))
        return s->customers * (2 * demo_below(draws, 4) + 1) / 64;
    uint64_t passed = (uint64_t)(day - FIRST_DAY + EARLY_DAYS);
    uint64_t present = s->customers * passed / (DAYS + EARLY_DAYS); /* those that have signed up */
    present = present ? present : 1;
    for (int attempt = 0; attempt < 3; attempt++) {
        uint64_t customer = skewed(draws, present);
        demo_draws of_customer = demo_draws_of(ASPECT_CUSTOMER, customer);
        int64_t active_days = 60 + (int64_t)demo_below(&of_customer, 1400);
        if (day < signup_day(s, customer) + active_days)
            return customer;
    }
    return skewed(draws, present);
}

/* One line in eight is one of four bestsellers. */
static uint64_t pick_product(const shop *s, demo_draws *draws, int64_t day) {
    if (demo_chance(draws, 125))
        return s->products * (2 * demo_below(draws, 4) + 1) / 16;
    uint64_t at_first = s->products * 3 / 5; /* the others come one after the other */
    uint64_t present = at_first + (s->products - at_first) * (uint64_t)(day - FIRST_DAY) / DAYS;
    return skewed(draws, present ? present : 1);
}

/* ---- The small tables -------------------------------------------------------------------------------- */

static void make_categories(shop *s) {
    for (int i = 0; i < DEMO_CATEGORY_COUNT; i++) {
        row r = begin_row(s, DEMO_CATEGORIES);
        put_text(&r, demo_categories[i].name);
        put_text(&r, demo_categories[i].parent);
        put_text(&r, demo_categories[i].description);
        end_row(&r);
    }
}

/* "OSL-3": the city and a number. */
static const char *write_store_code(uint64_t store, char out[32]) {
    const char *city = demo_cities[store % DEMO_CITY_COUNT];
    char prefix[4] = {0};
    for (int i = 0; i < 3; i++)
        prefix[i] = (char)(city[i] >= 'a' && city[i] <= 'z' ? city[i] - 'a' + 'A' : city[i]);
    snprintf(out, 32, "%s-%" PRIu64, prefix, store / DEMO_CITY_COUNT + 1);
    return out;
}

static void make_stores(shop *s) {
    for (uint64_t i = 0; i < s->stores; i++) {
        demo_draws draws = demo_draws_of(DEMO_STORES, i);
        char code[32];
        row r = begin_row(s, DEMO_STORES);
        put_text(&r, write_store_code(i, code));
        put_text(&r, demo_cities[i % DEMO_CITY_COUNT]);
        put_hundredths(&r, demo_chance(&draws, 80) ? NOTHING : 4000 + 25 * (int64_t)demo_below(&draws, 2000));
        put_date(&r, FIRST_DAY - 1 - (int64_t)demo_below(&draws, 5000));
        end_row(&r);
    }
}

/* Every employee but the first has a manager with a smaller number. */
static void make_employees(shop *s) {
    static const char *const roles[] = {"sales", "stock", "till", "office"};
    for (uint64_t i = 0; i < s->employees; i++) {
        demo_draws draws = demo_draws_of(DEMO_EMPLOYEES, i);
        char name[DEMO_TEXT_MAX], code[32];
        int64_t hired = FIRST_DAY - 1 - (int64_t)demo_below(&draws, 3000);
        row r = begin_row(s, DEMO_EMPLOYEES);
        put_int(&r, (int64_t)i + 1);
        put_int(&r, i == 0 ? NOTHING : (int64_t)(i / 8) + 1);
        put_text(&r, write_store_code(i % s->stores, code));
        put_text(&r, demo_person(&draws, name));
        put_text(&r, i < s->employees / 8 + 1 ? "manager" : roles[demo_below(&draws, 4)]);
        put_hundredths(&r, 210000 + 100 * (int64_t)demo_below(&draws, 2500));
        put_date(&r, hired);
        put_date(&r, demo_chance(&draws, 850) ? NOTHING : hired + 30 + (int64_t)demo_below(&draws, 3000));
        end_row(&r);
    }
}

static void make_customers(shop *s) {
    for (uint64_t i = 0; i < s->customers; i++) {
        demo_draws draws = demo_draws_of(DEMO_CUSTOMERS, i);
        char name[DEMO_TEXT_MAX], email[64];
        row r = begin_row(s, DEMO_CUSTOMERS);
        put_int(&r, (int64_t)i + 1);
        put_text(&r, demo_person(&draws, name));
        snprintf(email, sizeof email, "c%" PRIu64 "@example.org", i + 1);
        put_text(&r, email);
        put_text(&r, demo_cities[skewed(&draws, DEMO_CITY_COUNT)]);
        put_int(&r, demo_chance(&draws, 300) ? NOTHING : 1940 + (int64_t)demo_below(&draws, 66));
        put_int(&r, demo_chance(&draws, 420));
        put_int(&r, i == 0 || !demo_chance(&draws, 120) ? NOTHING : (int64_t)skewed(&draws, i) + 1);
        put_time(&r, signup_day(s, i) * SECONDS_PER_DAY + waking_second(&draws));
        end_row(&r);
    }
}

static void make_products(shop *s) {
    uint64_t at_first = s->products * 3 / 5;
    for (uint64_t i = 0; i < s->products; i++) {
        demo_draws draws = demo_draws_of(DEMO_PRODUCTS, i);
        product p = product_of(i);
        char name[DEMO_TEXT_MAX], description[DEMO_TEXT_MAX];
        row r = begin_row(s, DEMO_PRODUCTS);
        put_int(&r, (int64_t)i + 1);
        put_text(&r, demo_categories[demo_below(&draws, DEMO_CATEGORY_COUNT)].name);
        put_text(&r, demo_product_name(&draws, name));
        put_text(&r, demo_chance(&draws, 100) ? NULL : demo_product_description(&draws, description));
        put_hundredths(&r, p.price_cents);
        int64_t least = p.is_heavy ? 800 : 5;
        uint32_t spread = p.is_heavy ? 2500 : 300;
        put_hundredths(&r, demo_chance(&draws, 50) ? NOTHING : least + (int64_t)demo_below(&draws, spread));
        put_date(&r, i < at_first
                         ? FIRST_DAY - 30
                         : FIRST_DAY - 1 + (int64_t)((i - at_first) * DAYS / (s->products - at_first)));
        end_row(&r);
    }
}

/* ---- Orders ------------------------------------------------------------------------------------------ */

/* What happened to an order. Times are seconds, -1 where it has not happened (yet). */
typedef struct order {
    uint64_t number;
    uint64_t customer;
    int64_t day;
    int64_t ordered_at, promised_at, delivered_at, closed_at;
    bool is_in_store, is_cancelled, is_late, has_heavy;
    uint32_t carrier;
    int64_t total_cents;
    int line_count;
    uint64_t products[6];
    uint32_t quantities[6];
} order;

static int64_t if_it_has_happened(int64_t seconds) {
    return seconds < (int64_t)LAST_DAY * SECONDS_PER_DAY ? seconds : -1;
}

static void choose_lines(const shop *s, demo_draws *draws, order *o) {
    static const uint32_t at_most[] = {400, 680, 840, 930, 970, 1000}; /* per thousand, of 1, 2, … 6 lines */
    uint32_t place = demo_below(draws, 1000);
    while (place >= at_most[o->line_count])
        o->line_count++;
    o->line_count++;
    for (int line = 0; line < o->line_count; line++) {
        o->products[line] = pick_product(s, draws, o->day);
        o->quantities[line] = 1 + (demo_chance(draws, 200) ? demo_below(draws, 5) : 0);
        product p = product_of(o->products[line]);
        o->has_heavy = o->has_heavy || p.is_heavy;
        o->total_cents += p.price_cents * o->quantities[line];
    }
}

/* A parcel takes two to five days and is promised within four; the slow carrier, December and weight add to
 * it. */
static void deliver(demo_draws *draws, order *o) {
    o->is_cancelled = demo_chance(draws, 25);
    o->is_in_store = demo_chance(draws, 200);
    o->carrier = (uint32_t)skewed(draws, DEMO_CARRIER_COUNT);
    int64_t delay_days = 2 + (int64_t)demo_below(draws, 3);
    bool is_december = o->day % 365 > 365 - 45;
    if (demo_chance(draws, o->carrier == DEMO_CARRIER_COUNT - 1 ? 450 : 60))
        delay_days += 1 + (int64_t)demo_below(draws, 6);
    if ((is_december || o->has_heavy) && demo_chance(draws, 250))
        delay_days += 1 + (int64_t)demo_below(draws, 4);
    o->promised_at = o->is_in_store ? o->ordered_at : (o->day + 4) * SECONDS_PER_DAY + 20 * 3600;
    int64_t arrival = (o->day + delay_days) * SECONDS_PER_DAY + waking_second(draws);
    o->delivered_at = o->is_cancelled ? -1 : o->is_in_store ? o->ordered_at : if_it_has_happened(arrival);
    o->is_late = o->delivered_at > o->promised_at;
    o->closed_at = o->is_cancelled ? if_it_has_happened(o->ordered_at + 3600 + demo_below(draws, 80000))
                                   : o->delivered_at;
}

static void put_order(shop *s, demo_draws *draws, const order *o) {
    static const char *const payments[] = {"card", "transfer", "invoice", "voucher"};
    char code[32];
    uint64_t employee = skewed(draws, s->employees);
    row r = begin_row(s, DEMO_ORDERS);
    put_int(&r, (int64_t)o->number + 1);
    put_int(&r, (int64_t)o->customer + 1);
    put_text(&r, o->is_in_store ? write_store_code(employee % s->stores, code) : NULL);
    put_int(&r, o->is_in_store ? (int64_t)employee + 1 : NOTHING);
    put_time(&r, o->ordered_at);
    put_time(&r, o->promised_at);
    put_time(&r, o->delivered_at);
    put_text(&r, o->closed_at < 0 ? "open" : o->is_cancelled ? "cancelled" : "delivered");
    put_time(&r, o->closed_at);
    put_text(&r, o->is_in_store ? NULL : demo_carriers[o->carrier]);
    put_text(&r, payments[skewed(draws, 4)]);
    put_hundredths(&r, o->total_cents);
    end_row(&r);
}

/* About one line in four is reviewed, one review in two hundred about a product that is gone. */
static void maybe_review(shop *s, demo_draws *draws, const order *o, uint64_t number) {
    char body[DEMO_TEXT_MAX];
    if (o->delivered_at < 0 || !demo_chance(draws, 240))
        return;
    int64_t reviewed_at =
        if_it_has_happened(o->delivered_at + (int64_t)demo_below(draws, 20 * SECONDS_PER_DAY) + 3600);
    if (reviewed_at < 0)
        return;
    /* What the product is worth, less for a late parcel, give or take. */
    int rating = 3 + product_of(number).quality + (int)demo_below(draws, 3);
    rating -= o->is_late && demo_chance(draws, 700) ? 2 : 0;
    rating = rating < 1 ? 1 : rating > 5 ? 5 : rating;
    row r = begin_row(s, DEMO_REVIEWS);
    put_int(&r, (int64_t)s->counts->rows[DEMO_REVIEWS] + 1);
    put_int(&r, (int64_t)o->customer + 1);
    put_int(&r, (int64_t)number + 1 + (demo_chance(draws, 5) ? 100000000 : 0));
    put_int(&r, demo_chance(draws, 40) ? NOTHING : rating);
    put_text(&r, demo_review_title(draws, rating));
    put_text(&r, demo_chance(draws, 250) ? NULL : demo_review_body(draws, rating, o->is_late, body));
    put_int(&r, reviewed_at * 1000 + demo_below(draws, 1000));
    end_row(&r);
}

/* Lines come back more often when the product is poor; after thirty days they are settled. */
static void put_line(shop *s, demo_draws *draws, const order *o, int line) {
    product p = product_of(o->products[line]);
    bool is_returned = o->delivered_at >= 0 && demo_chance(draws, p.quality < 0 ? 180 : 40);
    int64_t settled_at = -1;
    if (o->delivered_at >= 0)
        settled_at = if_it_has_happened(o->delivered_at + (is_returned ? 2 + demo_below(draws, 20) : 30) *
                                                              (int64_t)SECONDS_PER_DAY);
    row r = begin_row(s, DEMO_ORDER_ITEMS);
    put_int(&r, (int64_t)o->number + 1);
    put_int(&r, line + 1);
    put_int(&r, (int64_t)o->products[line] + 1);
    put_int(&r, o->quantities[line]);
    put_hundredths(&r, p.price_cents);
    put_time(&r, o->ordered_at);
    put_int(&r, is_returned && settled_at >= 0);
    put_time(&r, settled_at);
    end_row(&r);
}

static void make_orders(shop *s) {
    for (uint64_t i = 0; i < s->orders && s->fault == SQLITE_OK; i++) {
        demo_draws draws = demo_draws_of(DEMO_ORDERS, i);
        order o = {.number = i, .day = FIRST_DAY + (int64_t)(i * DAYS / s->orders)};
        o.ordered_at = o.day * SECONDS_PER_DAY + waking_second(&draws);
        o.customer = pick_customer(s, &draws, o.day);
        choose_lines(s, &draws, &o);
        deliver(&draws, &o);
        put_order(s, &draws, &o);
        for (int line = 0; line < o.line_count; line++) {
            demo_draws of_line = demo_draws_of(DEMO_ORDER_ITEMS, i * 8 + (uint64_t)line);
            put_line(s, &of_line, &o, line);
            maybe_review(s, &of_line, &o, o.products[line]);
        }
    }
}

/* ---- The file ---------------------------------------------------------------------------------------- */

static void execute(shop *s, const char *sql) {
    if (s->fault == SQLITE_OK)
        note(s, sqlite3_exec(s->database, sql, NULL, NULL, NULL));
}

weir_status demo_shop_check(const char *path, bool *is_there, weir_error *error) {
    enum { APPLICATION_ID_OFFSET = 68 };
    char header[APPLICATION_ID_OFFSET + 4] = {0};
    FILE *file = fopen(path, "rb");
    *is_there = file || errno != ENOENT;
    if (!*is_there)
        return WEIR_OK;
    size_t size = file ? fread(header, 1, sizeof header, file) : 0;
    if (file)
        (void)fclose(file);
    if (size == sizeof header && memcmp(header + APPLICATION_ID_OFFSET, "weir", 4) == 0)
        return WEIR_OK;
    return cli_error(error, WEIR_IO_ERROR, "%s is there already and is not a demo shop; choose another --dir",
                     path);
}

static weir_status fill(shop *s, const char *path, const char *partial, weir_error *error) {
    if (sqlite3_open(partial, &s->database) != SQLITE_OK)
        return cli_error(error, WEIR_IO_ERROR, "cannot make %s: %s", partial, sqlite3_errmsg(s->database));
    execute(s, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
               "PRAGMA cache_size = -65536; BEGIN");
    execute(s, declarations);
    for (int table = 0; table < DEMO_TABLES && s->fault == SQLITE_OK; table++)
        note(s, sqlite3_prepare_v3(s->database, insertions[table], -1, SQLITE_PREPARE_PERSISTENT,
                                   &s->insert[table], NULL));
    if (s->fault == SQLITE_OK) {
        make_categories(s);
        make_stores(s);
        make_employees(s);
        make_customers(s);
        make_products(s);
        make_orders(s);
    }
    for (int table = 0; table < DEMO_TABLES; table++)
        (void)sqlite3_finalize(s->insert[table]);
    execute(s, indexes);
    execute(s, "COMMIT");
    if (s->fault != SQLITE_OK)
        return cli_error(error, WEIR_IO_ERROR, "cannot write %s: %s", partial, sqlite3_errmsg(s->database));
    if (sqlite3_close(s->database) != SQLITE_OK)
        return cli_error(error, WEIR_IO_ERROR, "cannot close %s", partial);
    s->database = NULL;
    if (rename(partial, path) != 0)
        return cli_error(error, WEIR_IO_ERROR, "cannot rename %s: %s", partial, strerror(errno));
    return WEIR_OK;
}

weir_status demo_shop_write(const char *path, uint64_t scale, demo_progress progress, void *context,
                            demo_counts *counts, weir_error *error) {
    char partial[4200];
    shop s = {.counts = counts, .progress = progress, .progress_context = context};
    *counts = (demo_counts){0};
    bool is_there;
    weir_status status = demo_shop_check(path, &is_there, error);
    if (status != WEIR_OK)
        return status;
    if (snprintf(partial, sizeof partial, "%s.partial", path) >= (int)sizeof partial)
        return cli_error(error, WEIR_IO_ERROR, "the path %.100s… is too long", path);
    (void)unlink(partial);
    /* All tables together have about `scale` rows: an order brings about 3.6 rows with it. */
    s.orders = scale / 4;
    s.customers = s.orders * 3 / 10;
    s.products = s.orders / 20 + 4;
    s.employees = s.orders / 400 + 8;
    s.stores = s.employees / 8 + 1 < 400 ? s.employees / 8 + 1 : 400;
    s.expected_rows = scale;
    status = fill(&s, path, partial, error);
    if (status != WEIR_OK) {
        (void)sqlite3_close_v2(s.database);
        (void)unlink(partial);
    }
    return status;
}
