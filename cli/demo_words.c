/* The demo shop's words: names, products and reviews, put together from lists by random numbers. What a
 * review says fits its rating. */
#include "demo_shop.h"

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof(list)[0]))

/* ---- Draws ------------------------------------------------------------------------------------------- */

demo_draws demo_draws_of(unsigned table, uint64_t row) {
    enum { BLOCKS_PER_ROW = 16 };
    static const weir_seed seed = {{0x77656972, 0x73686F70, 0x64656D6F, 1}};
    return (demo_draws){.seed = seed, .domain = 0x64656D00 + table, .next = row * BLOCKS_PER_ROW};
}

uint32_t demo_draw(demo_draws *draws) {
    if (draws->left == 0) {
        weir_random block = weir_philox(draws->seed, draws->domain, draws->next++);
        draws->words[0] = (uint32_t)block.k0;
        draws->words[1] = (uint32_t)(block.k0 >> 32);
        draws->words[2] = (uint32_t)block.k1;
        draws->words[3] = (uint32_t)(block.k1 >> 32);
        draws->left = 4;
    }
    return draws->words[--draws->left];
}

uint32_t demo_below(demo_draws *draws, uint32_t range) {
    return (uint32_t)(((uint64_t)demo_draw(draws) * range) >> 32);
}

bool demo_chance(demo_draws *draws, uint32_t per_thousand) {
    return demo_below(draws, 1000) < per_thousand;
}

/* ---- Lists ------------------------------------------------------------------------------------------- */

const demo_category demo_categories[DEMO_CATEGORY_COUNT] = {
    {"Home", NULL, "Everything for the place where you live"},
    {"Kitchen", "Home", "To cook, to bake and to keep"},
    {"Pots", "Kitchen", "Pots and pans of iron, steel and copper"},
    {"Knives", "Kitchen", "Sharp for years, and easy to sharpen"},
    {"Tableware", "Kitchen", "Plates, bowls and cups"},
    {"Lighting", "Home", "Lamps for reading, working and resting"},
    {"Furniture", "Home", "Chairs, tables and shelves"},
    {"Chairs", "Furniture", "To sit well for long"},
    {"Shelves", "Furniture", "Room for books and all else"},
    {"Bedding", "Home", "Wool, linen and down"},
    {"Garden", NULL, "For those who dig, plant and wait"},
    {"Tools", "Garden", "Spades, forks and shears"},
    {"Seeds", "Garden", "Old kinds and new ones"},
    {"Pots and planters", "Garden", "Clay, wood and zinc"},
    {"Books", NULL, "New and used"},
    {"Fiction", "Books", "Novels and stories"},
    {"Crime", "Fiction", "Who did it, and why"},
    {"Poetry", "Fiction", "Few words, well chosen"},
    {"Science", "Books", "How things work"},
    {"History", "Books", "What happened"},
    {"Children", "Books", "To read and to be read to"},
    {"Sports", NULL, "To move, outdoors and in"},
    {"Running", "Sports", "Shoes and what goes with them"},
    {"Cycling", "Sports", "Parts, lights and locks"},
    {"Camping", "Sports", "Tents, stoves and sleeping bags"},
    {"Clothing", NULL, "Made to be worn for long"},
    {"Coats", "Clothing", "Against rain and wind"},
    {"Knitwear", "Clothing", "Wool from sheep that we know"},
    {"Shoes", "Clothing", "Leather, felt and canvas"},
    {"Electronics", NULL, "What needs power"},
    {"Audio", "Electronics", "To hear and to be heard"},
    {"Cameras", "Electronics", "To see and to keep"},
    {"Cables", "Electronics", "The one that you are missing"},
    {"Food", NULL, "Things that keep"},
    {"Coffee", "Food", "Roasted every week"},
    {"Tea", "Food", "Green, black and neither"}};

const char *const demo_cities[DEMO_CITY_COUNT] = {
    "Lisbon", "Oslo",   "Kraków", "Lima",   "Osaka", "Nairobi", "Montréal", "Graz",
    "Porto",  "Bergen", "Gdańsk", "Bogotá", "Kyoto", "Accra",   "Halifax",  "Zürich"};

const char *const demo_carriers[DEMO_CARRIER_COUNT] = {"Heron", "Swift", "Stork", "Snail"};

static const char *const first_names[] = {
    "Ada",  "Bela",  "Chen",  "Dora",  "Emil",  "Fatma", "Goro",   "Hana",  "Igor",  "Jun",
    "Kofi", "Lena",  "Mara",  "Nils",  "Olga",  "Priya", "Quinn",  "Rosa",  "Sven",  "Tomás",
    "Uma",  "Vera",  "Wanda", "Xenia", "Yusuf", "Zofia", "Amir",   "Bruno", "Clara", "Diego",
    "Esra", "Felix", "Greta", "Hugo",  "Ines",  "Jonas", "Katrín", "Luca",  "Mina",  "Noor"};
static const char *const last_names[] = {
    "Almeida", "Berg",      "Costa",    "Dahl",   "Eriksen",  "Fischer",  "García",   "Haddad",
    "Ivanova", "Jansen",    "Kowalska", "Lund",   "Mwangi",   "Nakamura", "Okafor",   "Pereira",
    "Quispe",  "Rossi",     "Sato",     "Tanaka", "Ueda",     "Varga",    "Weber",    "Ximenes",
    "Yılmaz",  "Zielinski", "Abara",    "Bauer",  "Chaudhry", "Duarte",   "Engström", "Ferrari"};
static const char *const materials[] = {"Oak",    "Copper", "Linen",   "Wool",  "Steel",  "Clay",  "Glass",
                                        "Walnut", "Canvas", "Leather", "Paper", "Stone",  "Felt",  "Brass",
                                        "Birch",  "Bamboo", "Cork",    "Zinc",  "Cotton", "Enamel"};
static const char *const manners[] = {"Folding", "Quiet", "Small",  "Large",  "Winter", "Summer", "Travel",
                                      "Classic", "Plain", "Double", "Bright", "Heavy",  "Light",  "Everyday"};
static const char *const things[] = {
    "Lamp",  "Kettle", "Chair", "Shelf",   "Blanket", "Spade",  "Planter", "Reader", "Atlas",   "Jacket",
    "Boot",  "Radio",  "Lens",  "Cable",   "Grinder", "Teapot", "Bowl",    "Knife",  "Pan",     "Tent",
    "Stove", "Lock",   "Pedal", "Sweater", "Scarf",   "Bench",  "Board",   "Basket", "Lantern", "Mug"};
static const char *const purposes[] = {
    "for long evenings", "for two",        "that lasts", "for every day",  "for the road",
    "for small rooms",   "for cold hands", "to give",    "for the garden", "that folds away"};
static const char *const makers[] = {"made by hand in a small workshop",
                                     "from old stock, checked by us",
                                     "from a family that makes nothing else",
                                     "made of what others throw away",
                                     "designed here, made nearby",
                                     "the only one of its kind that we found"};

static const char *const titles_good[] = {"Wonderful",    "Would buy again",      "Just right",
                                          "A joy to use", "Better than expected", "Love it",
                                          "Excellent"};
static const char *const titles_fair[] = {"It is fine",  "Does what it says", "Nothing special",
                                          "Good enough", "As described",      "Could be better"};
static const char *const titles_poor[] = {"Disappointed", "Broke after a week", "Not worth it",
                                          "Never again",  "Poor quality",       "Sent it back"};
static const char *const openers[] = {"Bought this for my mother",
                                      "I use it every day",
                                      "Got it as a present",
                                      "Three weeks in use",
                                      "My second one",
                                      "Ordered it on a friend's advice",
                                      "It sits in our kitchen now",
                                      "We took it on a long trip",
                                      "I had wanted one for years",
                                      "Compared it with two others",
                                      "The whole family uses it",
                                      "Not cheap"};
static const char *const verdicts_good[] = {
    "and it works beautifully",         "and I could not be happier",
    "and it feels solid and well made", "and it still looks new",
    "and everyone asks about it",       "and the colour is even nicer than in the picture",
    "and it was easy to put together",  "and it does exactly what it should"};
static const char *const verdicts_fair[] = {
    "and it does its job",           "but the finish is a bit rough",
    "and it is all right",           "but it is smaller than I thought",
    "and I have no strong feelings", "but the manual is no help at all"};
static const char *const verdicts_poor[] = {
    "but the handle came off",         "but it arrived with a scratch", "and it stopped working within days",
    "but it smells of glue",           "and the parts do not fit",      "but the seam opened at once",
    "and the support never wrote back"};
static const char *const closers_on_time[] = {"Quick delivery.", "Came on time.", "Well packed.",
                                              "Thanks to the shop.", "The box was reused, which I like."};
static const char *const closers_late[] = {"It came far too late.", "We waited for more than a week.",
                                           "The parcel was lost for days.", "Delivery took for ever."};

/* ---- Putting together -------------------------------------------------------------------------------- */

#define PICK(draws, list) ((list)[demo_below((draws), COUNT(list))])

const char *demo_person(demo_draws *draws, char out[DEMO_TEXT_MAX]) {
    const char *first = PICK(draws, first_names);
    const char *last = PICK(draws, last_names);
    snprintf(out, DEMO_TEXT_MAX, "%s %s", first, last);
    return out;
}

const char *demo_product_name(demo_draws *draws, char out[DEMO_TEXT_MAX]) {
    const char *manner = PICK(draws, manners);
    const char *material = PICK(draws, materials);
    const char *thing = PICK(draws, things);
    snprintf(out, DEMO_TEXT_MAX, "%s %s %s", manner, material, thing);
    return out;
}

const char *demo_product_description(demo_draws *draws, char out[DEMO_TEXT_MAX]) {
    const char *material = PICK(draws, materials);
    const char *purpose = PICK(draws, purposes);
    const char *maker = PICK(draws, makers);
    snprintf(out, DEMO_TEXT_MAX, "%s %s, %s", material, purpose, maker);
    return out;
}

const char *demo_review_title(demo_draws *draws, int rating) {
    return rating >= 4   ? PICK(draws, titles_good)
           : rating == 3 ? PICK(draws, titles_fair)
                         : PICK(draws, titles_poor);
}

const char *demo_review_body(demo_draws *draws, int rating, bool was_late, char out[DEMO_TEXT_MAX]) {
    const char *opener = PICK(draws, openers);
    const char *verdict = rating >= 4   ? PICK(draws, verdicts_good)
                          : rating == 3 ? PICK(draws, verdicts_fair)
                                        : PICK(draws, verdicts_poor);
    const char *closer = was_late ? PICK(draws, closers_late) : PICK(draws, closers_on_time);
    bool is_short = demo_chance(draws, 400);
    snprintf(out, DEMO_TEXT_MAX, "%s %s.%s%s", opener, verdict, is_short ? "" : " ", is_short ? "" : closer);
    return out;
}
