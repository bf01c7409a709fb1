/* From the rows of a history to the rows of the best items: see `native.py`, which calls this and explains it.
 *
 * Nothing here calls Python. Rows and offsets are compared with the lengths of arrays where they are used: a large file
 * is mapped, so what was checked when it was opened may have been changed since. A score that is no number is none. All
 * numbers that decide are of double precision; single precision and 8-bit codes only find
 * items whose precise score is worth computing. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(FAST)
#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

#define LEAST_FACTOR 1e-30f

enum { LANES = 8, SHARES = 16, NO_MEMORY = -1, NO_MIDPOINT = -2, TOO_FEW = -3, OUTSIDE = -4 };

typedef struct {
    int64_t count, width;              /* items, and coordinates of a point */
    int32_t hyperbolic, ordered;       /* ordered: whether the memory is */
    const float *items, *histories;    /* what is ranked, and what histories are made of */
    const float *new_histories;        /* the same of rows from `count` on */
    int64_t new_count;
    const int64_t *neighbour_offsets;  /* of the memory; NULL without one */
    const int32_t *neighbours;
    const float *neighbour_values;
    int64_t neighbour_count;
    double memory_weight, sharpness;
    double longest;                    /* the greatest length of a point of an item */
    const float *item_offsets;         /* added to the scores of items; NULL: nothing is */
    const float *item_factors;         /* exp(offset - the greatest), at least LEAST_FACTOR; on the hyperboloid only */
    double greatest_offset;
} Catalogue;

typedef struct {
    int64_t count, width, code_width;  /* lists, coordinates of a centre and of a code, both padded with zeros */
    const float *centres;              /* of the lists */
    const float *biases;               /* half the squared length of a centre */
    const float *units;                /* of each coordinate of a code */
    const float *scales;               /* of the codes of each list */
    const int64_t *offsets;            /* list l has rows[offsets[l]] to rows[offsets[l + 1] - 1] */
    const int32_t *rows;
    int64_t row_count;
    const int8_t *codes;
    const float *greatest_offsets;     /* of the items of each list; NULL without offsets of items */
    const float *factors, *greatest_factors; /* of `rows`, as in the catalogue; and the greatest of each list */
} Lists;

typedef struct {
    const double *query;          /* a point; NULL: the midpoint of the history */
    const int64_t *history;       /* rows, oldest first */
    const double *weights;        /* of the items of the history in the midpoint */
    int64_t history_count;
    const int64_t *known;         /* rows whose neighbours are remembered */
    const double *shares;         /* their weights in the memory */
    int64_t known_count;
    const int64_t *repeated;      /* items with a boost of their own, and these boosts */
    const double *repeated_boosts;
    int64_t repeated_count;
    const int64_t *excluded;      /* never recommended */
    int64_t excluded_count;
    const uint8_t *eligible;      /* a bitmap of the items that may be recommended; NULL: all */
    const int64_t *candidates;    /* the only items to score besides boosted ones; NULL: see `lists` */
    int64_t candidate_count;
    const float *linear;          /* the linear scores of all items, if somebody has computed them */
    const Lists *lists;           /* where candidates come from, otherwise; NULL: all eligible items */
    int64_t probes, wanted;       /* lists to scan, and candidates to score precisely */
    int64_t k;
    int32_t by_distance, boosted; /* boosted: whether to add what the memory says */
    int32_t raised;               /* whether to add the offsets of items */
} Request;

typedef struct {
    double score, reach; /* the least and the greatest that it may be */
    int64_t row;
} Entry;

/* The best of many entries: all that may still be among the first `wanted`. */
typedef struct {
    Entry *entries;
    int64_t size, room, wanted;
    double bound;
} Best;

typedef struct {
    int64_t key; /* row + 1; 0: free */
    double sum, added; /* by the memory, before the logarithm; by repeats */
    uint8_t excluded, boosted, scored;
} Slot;

typedef struct {
    Slot *slots;
    uint64_t mask, factor;
    int shift;
    double unit; /* of the sums of the memory */
} Table;

static int start_best(Best *best, int64_t wanted) {
    best->size = 0;
    best->wanted = wanted;
    best->room = 4 * wanted + 32; /* with more room, the bound rises later, and more items are offered in vain */
    best->bound = -INFINITY;
    best->entries = malloc(best->room * sizeof(Entry));
    return best->entries != NULL;
}

static int precedes(const Entry *left, const Entry *right) {
    return left->score > right->score || (left->score == right->score && left->row < right->row);
}

/* Move the best `count` of the entries to the front, in no order. */
static void select_best(Entry *entries, int64_t size, int64_t count) {
    int64_t first = 0, last = size - 1, target = count - 1;
    while (first < last) {
        Entry pivot = entries[first + (last - first) / 2];
        int64_t low = first - 1, high = last + 1;
        for (;;) {
            do low++; while (precedes(&entries[low], &pivot));
            do high--; while (precedes(&pivot, &entries[high]));
            if (low >= high) break;
            Entry swapped = entries[low];
            entries[low] = entries[high];
            entries[high] = swapped;
        }
        if (target <= high) last = high; else first = high + 1;
    }
}

/* Drop the entries that are not among the first `wanted`, nor may be. */
static int shrink(Best *best) {
    if (best->size >= best->wanted) {
        select_best(best->entries, best->size, best->wanted);
        double least = INFINITY;
        for (int64_t i = 0; i < best->wanted; i++)
            if (best->entries[i].score < least) least = best->entries[i].score;
        best->bound = least;
        int64_t kept = best->wanted;
        for (int64_t i = best->wanted; i < best->size; i++)
            if (best->entries[i].reach >= best->bound) best->entries[kept++] = best->entries[i];
        best->size = kept;
    }
    if (2 * best->size > best->room) {
        Entry *larger = realloc(best->entries, 2 * best->room * sizeof(Entry));
        if (larger == NULL) return 0;
        best->entries = larger;
        best->room *= 2;
    }
    return 1;
}

static inline int offer_between(Best *best, double score, double reach, int64_t row) {
    if (reach < best->bound || score != score) return 1; /* what is no number has no order */
    best->entries[best->size++] = (Entry){score, reach, row};
    return best->size < best->room || shrink(best);
}

static inline int offer(Best *best, double score, int64_t row) {
    return offer_between(best, score, score, row);
}

static int compare(const void *left, const void *right) {
    return precedes(left, right) ? -1 : 1;
}

/* Whether all rows are from `first` to before `end`. */
static int are_within(const int64_t *rows, int64_t count, int64_t first, int64_t end) {
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < first || rows[i] >= end) return 0;
    return 1;
}

/* The length of a group, and where it starts; -1 if that is outside of an array of `count`. */
static inline int64_t find_group(const int64_t *offsets, int64_t group, int64_t count, int64_t *start) {
    int64_t first = offsets[group], end = offsets[group + 1];
    *start = first;
    return 0 <= first && first <= end && end <= count ? end - first : -1;
}

/* A table for `count` rows, of which most are below `items`. If it has room for all items, slots are in their order: the
 * neighbours of an item, whose rows rise, are found one after the other in the memory of the machine. */
static int start_table(Table *table, int64_t count, int64_t items) {
    int bits = 6;
    while (((int64_t)1 << bits) < 2 * count) bits++;
    table->mask = ((uint64_t)1 << bits) - 1;
    table->shift = 64 - bits;
    table->factor = (uint64_t)items <= table->mask ? (uint64_t)1 << table->shift : 0x9E3779B97F4A7C15u;
    table->slots = calloc(table->mask + 1, sizeof(Slot));
    return table->slots != NULL;
}

static inline Slot *find(const Table *table, int64_t row) {
    uint64_t index = ((uint64_t)row * table->factor) >> table->shift;
    while (table->slots[index].key != row + 1 && table->slots[index].key) index = (index + 1) & table->mask;
    return &table->slots[index];
}

/* The slot of a row; a new one for a row that has none. */
static inline Slot *enter(Table *table, int64_t row) {
    Slot *slot = find(table, row);
    slot->key = row + 1;
    return slot;
}

static inline int is_set(const uint8_t *bitmap, int64_t row) {
    return bitmap == NULL || (bitmap[row >> 3] >> (row & 7)) & 1;
}

/* Sums of products have eight partial sums, in the same order for every item. */
static inline float add_lanes(const float *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* `query` has zeros up to a multiple of eight coordinates, and so many numbers of `point` can be read. */
static inline float multiply(const float *query, const float *point, int64_t padded) {
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < padded; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += query[i + j] * point[i + j];
    return add_lanes(lanes);
}

static inline float multiply_exactly(const float *query, const float *point, int64_t width) {
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < width; i++) lanes[i % LANES] += query[i] * point[i];
    return add_lanes(lanes);
}

static inline float half_square(const float *point, int64_t width) {
    float lanes[LANES] = {0};
    int64_t whole = width / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += point[i + j] * point[i + j];
    for (int64_t i = whole; i < width; i++) lanes[i - whole] += point[i] * point[i];
    return add_lanes(lanes) / 2;
}

static inline double add_four(const double *lanes) {
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/* `Space.score_points` of one item. */
static inline double score_precisely(const double *query, const float *point, int64_t width, int hyperbolic,
                                     int by_distance) {
    double squares[4] = {0}, products[4] = {0}, norms[4] = {0};
    int64_t first = hyperbolic ? 1 : 0, whole = first + (width - first) / 4 * 4;
    for (int64_t i = first; i < whole; i += 4)
        for (int j = 0; j < 4; j++) {
            double here = query[i + j], there = point[i + j], gap = there - here;
            squares[j] += gap * gap;
            products[j] += hyperbolic ? gap * (there + here) : there * here;
            norms[j] += there * there;
        }
    for (int64_t i = whole; i < width; i++) {
        double here = query[i], there = point[i], gap = there - here;
        squares[i - whole] += gap * gap;
        products[i - whole] += hyperbolic ? gap * (there + here) : there * here;
        norms[i - whole] += there * there;
    }
    double squared = add_four(squares), product = add_four(products);
    if (!hyperbolic) return by_distance ? -sqrt(squared) : product;
    double time = product / (query[0] + sqrt(1 + add_four(norms)));
    squared -= time * time;
    if (squared < 0) squared = 0;
    return by_distance ? -2 * asinh(sqrt(squared) / 2) : -1 - squared / 2;
}

/* S / sqrt(-<S, S>) or S / w of S = sum_i w_i x_i; 0 if there is none. */
FAST static int find_midpoint(const Catalogue *items, const Request *request, double *query) {
    int64_t width = items->width;
    double total = 0;
    memset(query, 0, width * sizeof(double));
    for (int64_t i = 0; i < request->history_count; i++) {
        int64_t row = request->history[i];
        const float *point = row < items->count ? items->histories + row * width
                                                : items->new_histories + (row - items->count) * width;
        double weight = request->weights[i];
        total += weight;
        if (!items->hyperbolic) {
            for (int64_t j = 0; j < width; j++) query[j] += weight * point[j];
            continue;
        }
        double norm = 1;
        for (int64_t j = 1; j < width; j++) {
            double coordinate = point[j];
            norm += coordinate * coordinate;
            query[j] += weight * coordinate;
        }
        query[0] += weight * sqrt(norm);
    }
    if (!items->hyperbolic) {
        for (int64_t j = 0; j < width; j++) query[j] /= total;
        return total > 0;
    }
    double squared = query[0] * query[0];
    for (int64_t j = 1; j < width; j++) squared -= query[j] * query[j];
    if (!(squared > 0 && query[0] > 0)) return 0;
    double length = sqrt(squared), norm = 1;
    for (int64_t j = 1; j < width; j++) {
        query[j] /= length;
        norm += query[j] * query[j];
    }
    query[0] = sqrt(norm);
    return 1;
}

/* What the memory and the repeats say about items, in the table and as a list of its slots; their number, or OUTSIDE.
 * The memory says at most `pairs` things. */
FAST static int64_t find_boosts(const Catalogue *items, const Request *request, Table *table, int64_t *boosted,
                                int64_t pairs) {
    int64_t count = 0;
    double greatest = 0;
    for (int64_t i = 0; request->boosted && i < request->known_count; i++) {
        int64_t row = request->known[i];
        double share = request->shares[i];
        if (share == 0) continue;
        int64_t start, length = find_group(items->neighbour_offsets, row, items->neighbour_count, &start);
        pairs -= length;
        if (length < 0 || pairs < 0) return OUTSIDE;
        for (int64_t pair = start; pair < start + length; pair++) {
            int64_t neighbour = items->neighbours[pair];
            if (neighbour < 0 || neighbour >= items->count) return OUTSIDE;
            Slot *slot = enter(table, neighbour);
            if (!slot->boosted) {
                slot->boosted = 1;
                boosted[count++] = slot - table->slots;
            }
            slot->sum += share * items->neighbour_values[pair];
            if (slot->sum > greatest) greatest = slot->sum;
        }
    }
    table->unit = items->ordered || greatest == 0 ? 1 : greatest;
    for (int64_t i = 0; i < request->repeated_count; i++) {
        Slot *slot = enter(table, request->repeated[i]);
        if (!slot->boosted) {
            slot->boosted = 1;
            boosted[count++] = slot - table->slots;
        }
        slot->added = request->repeated_boosts[i];
    }
    return count;
}

static inline double find_boost(const Catalogue *items, const Table *table, const Slot *slot) {
    double remembered = slot->sum > 0 ? items->memory_weight * log1p(items->sharpness * slot->sum / table->unit) : 0;
    return remembered + slot->added;
}

static inline int is_candidate(const Request *request, const Table *table, int64_t row) {
    return is_set(request->eligible, row) && !find(table, row)->excluded;
}

/* From linear scores to numbers in the order of scores with the offsets of items, which are called keys. On the
 * hyperboloid the key of an item at the distance d is exp(offset - d), and exp(d) = z + sqrt(z^2 - 1) takes one root
 * where d takes an arccosh. In flat space it is the score. Without offsets, it is the linear score. */
typedef struct {
    const float *offsets, *factors;
    double greatest, squares;     /* of the offsets; the squared length of the query */
    int by_factors, by_distance;
    double error;                 /* of linear scores */
    double bound, least;          /* what a key has to reach, and the linear score that this takes at least */
    float slope, rest;            /* slope * factor + rest: the linear score that this takes of an item, or less */
} Raised;

static inline double raise_distance(double linear) {
    return linear < -1 ? -linear + sqrt(linear * linear - 1) : 1;
}

/* The key of a linear score, of an item with this offset or factor. */
static inline double to_key(const Raised *raised, double linear, double offset) {
    if (raised->by_factors) return offset / raise_distance(linear);
    if (!raised->by_distance) return linear + offset;
    double squared = raised->squares - 2 * linear;
    return squared > 0 ? offset - sqrt(squared) : offset;
}

/* An item reaches the bound at the distance d = log r, with r = factor / bound, where cosh d = (r + 1 / r) / 2. For r from
 * 1 to R, of the factor 1, this is at most (r + 1 + 1 / R - r / R) / 2. Below r = 1, no item reaches it. */
static void set_bound(Raised *raised, double bound) {
    raised->bound = bound;
    raised->least = bound - raised->error;
    if (raised->by_factors) {
        double margin = 1 + 0x1p-20, greatest = bound > 0 ? margin / bound : INFINITY;
        if (greatest < 1) greatest = 1;
        raised->slope = (float)((1 - greatest) / 2 * margin);
        raised->rest = (float)(-((1 + 1 / greatest) / 2 + raised->error) * margin);
        raised->least = raised->slope + raised->rest;
    } else if (raised->offsets != NULL) {
        double score = bound - raised->greatest;
        raised->least = score - raised->error;
        if (raised->by_distance)
            raised->least = score > 0 ? INFINITY : (raised->squares - score * score) / 2 - raised->error;
    }
}

/* The linear scores of the items that are as much nearer than the centres of lists, with these linear scores, as the
 * greatest offset of each list says. Single precision is enough, since lists are ranked roughly anyway. */
static inline void raise_products(const Raised *raised, const Lists *lists, float *linear) {
    if (raised->by_factors) {
        float inverse = (float)exp(-raised->greatest);
        for (int64_t list = 0; list < lists->count; list++) {
            float z = linear[list] < -1 ? -linear[list] : 1;
            float ratio = (z + sqrtf((z - 1) * (z + 1))) * inverse / lists->greatest_factors[list];
            ratio = ratio > 1 ? ratio : 1;
            linear[list] = (ratio + 1 / ratio) * -0.5f;
        }
        return;
    }
    for (int64_t list = 0; list < lists->count; list++) {
        double score = to_key(raised, linear[list], lists->greatest_offsets[list]);
        if (raised->by_distance) score = (raised->squares - (score < 0 ? score * score : 0)) / 2;
        linear[list] = (float)score;
    }
}

static Raised make_raised(const Catalogue *items, const Request *request, const double *query, double error) {
    Raised raised = {.by_distance = request->by_distance, .error = error, .bound = -INFINITY,
                     .least = -INFINITY, .rest = -INFINITY};
    if (!request->raised || items->item_offsets == NULL) return raised;
    raised.offsets = items->item_offsets;
    raised.factors = items->item_factors;
    raised.by_factors = items->hyperbolic && request->by_distance;
    raised.greatest = items->greatest_offset;
    for (int64_t i = 0; i < items->width; i++) raised.squares += query[i] * query[i];
    return raised;
}

/* What `to_key` needs of an item. */
static inline double find_offset(const Raised *raised, int64_t row) {
    if (raised->by_factors) return raised->factors[row];
    return raised->offsets == NULL ? 0 : raised->offsets[row];
}

/* Offer an item whose linear score reaches the least one. */
static inline int offer_linear(Raised *raised, Best *best, double linear, double offset, int64_t row) {
    double error = raised->error, score = linear - error, reach = linear + error;
    if (raised->by_factors) {
        double z = -reach, root = z > 1 ? sqrt(z * z - 1) : 0;
        reach = score = offset / (z > 1 ? z + root : 1);
        if (error > 0) {
            reach *= 1 + 0x1p-23; /* what rounds a factor is less */
            /* The logarithm of a key falls by 1 / root, or less where z is larger. */
            score = offset > LEAST_FACTOR && root > 0 ? reach * (1 - 0x1p-22 - 2 * error / root) : -INFINITY;
        }
    } else if (raised->offsets != NULL) {
        reach = to_key(raised, reach, offset);
        score = to_key(raised, score, offset);
    }
    if (!offer_between(best, score, reach, row)) return 0;
    if (best->bound != raised->bound) set_bound(raised, best->bound);
    return 1;
}

/* The error of a product in single precision: at most D eps / 2 (|u| |v| + |v|^2 / 2). */
static double find_error(const Catalogue *items, const Request *request, const double *query) {
    double squared = 0;
    for (int64_t i = 0; i < items->width; i++) squared += query[i] * query[i];
    double length = sqrt(squared) + (request->by_distance && !items->hyperbolic ? items->longest : 0);
    double error = (items->width + 4) * 0x1p-24 * length * items->longest;
    return error >= 0 ? error : INFINITY;
}

/* Whether any of eight items, with these linear scores, may be among the best; and the least linear score that each of
 * them needs. Eight comparisons at once are faster than a jump for each. */
static inline int may_reach(const Raised *raised, const float *linear, int64_t start, float *least) {
    float lowest = (float)(raised->least - fabs(raised->least) * 0x1p-23), slope = raised->slope, rest = raised->rest;
    int any = 0;
    if (raised->by_factors)
        for (int i = 0; i < 8; i++) least[i] = slope * raised->factors[start + i] + rest;
    else
        for (int i = 0; i < 8; i++) least[i] = lowest;
    for (int i = 0; i < 8; i++) any |= linear[i] >= least[i];
    return any;
}

/* A query such that the products with it are in the order of the scores, but for half the squares of items in flat
 * space: in single precision, with zeros at the end. */
static void make_linear(const Catalogue *items, const double *query, float *linear, int64_t padded) {
    memset(linear, 0, padded * sizeof(float));
    for (int64_t i = 0; i < items->width; i++) linear[i] = (float)query[i];
    if (items->hyperbolic) linear[0] = -linear[0];
}

FAST static int scan_items(const Catalogue *items, const Request *request, const float *linear, const Table *table,
                           Raised *raised, Best *best) {
    int64_t width = items->width, padded = (width + LANES - 1) / LANES * LANES;
    int64_t safe = items->count - (padded - width + width - 1) / width; /* rows after which so much can be read */
    int squares = request->by_distance && !items->hyperbolic;
    for (int64_t start = 0; start < items->count; start += 8) {
        uint8_t bits = request->eligible == NULL ? 0xFF : request->eligible[start >> 3];
        if (!bits) {
            while (start + 72 <= items->count && request->eligible != NULL) { /* many are not eligible */
                uint64_t word;
                memcpy(&word, request->eligible + (start >> 3) + 1, 8);
                if (word) break;
                start += 64;
            }
            continue;
        }
        int length = items->count - start < 8 ? (int)(items->count - start) : 8;
        float scores[8];
        for (int i = 0; i < length; i++) {
            scores[i] = -INFINITY;
            if (!((bits >> i) & 1)) continue;
            const float *point = items->items + (start + i) * width;
            scores[i] = start + i < safe ? multiply(linear, point, padded) : multiply_exactly(linear, point, width);
            if (squares) scores[i] -= half_square(point, width);
        }
        float least[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
        if (length == 8 && !may_reach(raised, scores, start, least)) continue;
        for (int i = 0; i < length; i++)
            if (((bits >> i) & 1) && scores[i] >= least[i] && !find(table, start + i)->excluded &&
                !offer_linear(raised, best, scores[i], find_offset(raised, start + i), start + i))
                return 0;
    }
    return 1;
}

FAST static int scan_scores(const Catalogue *items, const Request *request, const Table *table, Raised *raised,
                       Best *best) {
    for (int64_t start = 0; start < items->count; start += 8) {
        int length = items->count - start < 8 ? (int)(items->count - start) : 8;
        const float *scores = request->linear + start;
        float least[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
        if (length == 8 && !may_reach(raised, scores, start, least)) continue;
        for (int i = 0; i < length; i++)
            if (scores[i] >= least[i] && is_candidate(request, table, start + i) &&
                !offer_linear(raised, best, scores[i], find_offset(raised, start + i), start + i))
                return 0;
    }
    return 1;
}

static inline int32_t multiply_codes(const int16_t *query, const int8_t *code, int64_t width) {
    int32_t sum = 0;
    for (int64_t i = 0; i < width; i++) sum += (int32_t)query[i] * (int32_t)(int16_t)code[i];
    return sum;
}

/* Returns 1, 0 if there is no memory, or OUTSIDE. */
FAST static int scan_lists(const Catalogue *items, const Request *request, const float *linear, const Table *table,
                           Raised *raised, Best *best) {
    const Lists *lists = request->lists;
    int64_t probes = request->probes < lists->count ? request->probes : lists->count;
    /* The last coordinate is that of half the squares in flat space by distance. */
    float *centred = calloc(lists->width + lists->code_width, sizeof(float)), *units = centred + lists->width;
    int16_t *coded = malloc(lists->code_width * sizeof(int16_t));
    float *products = malloc((lists->count + 1) * sizeof(float));
    Best nearest = {0};
    int succeeded = 0;
    if (centred == NULL || coded == NULL || products == NULL || !start_best(&nearest, probes)) goto end;
    memcpy(centred, linear, items->width * sizeof(float));
    if (request->by_distance && !items->hyperbolic) centred[items->width] = -1;
    float largest = 0;
    for (int64_t i = 0; i < lists->code_width; i++) {
        units[i] = i < lists->width ? centred[i] * lists->units[i] : 0;
        if (fabsf(units[i]) > largest) largest = fabsf(units[i]);
    }
    float limit = lists->code_width <= 512 ? 32767 : floorf(32767.0f * 512 / lists->code_width);
    float unit = largest > 0 ? largest / limit : 1;
    for (int64_t i = 0; i < lists->code_width; i++) coded[i] = (int16_t)lrintf(units[i] / unit);
    succeeded = 1;
    for (int64_t list = 0; list < lists->count; list++)
        products[list] = multiply(centred, lists->centres + list * lists->width, lists->width);
    if (raised->offsets != NULL) raise_products(raised, lists, products);
    for (int64_t list = 0; list < lists->count && succeeded; list++)
        succeeded = offer(&nearest, products[list] - lists->biases[list], list);
    if (succeeded) succeeded = shrink(&nearest);
    if (nearest.size > probes) nearest.size = probes;
    qsort(nearest.entries, nearest.size, sizeof(Entry), compare);
    for (int64_t i = 0; i < nearest.size && succeeded > 0; i++) {
        int64_t list = nearest.entries[i].row, start;
        int64_t length = find_group(lists->offsets, list, lists->row_count, &start);
        if (length < 0) {
            succeeded = OUTSIDE;
            break;
        }
        float base = (float)nearest.entries[i].score + lists->biases[list], scale = unit * lists->scales[list];
        if (raised->offsets != NULL) base = multiply(centred, lists->centres + list * lists->width, lists->width);
        const float *factors = raised->by_factors ? lists->factors : NULL;
        for (int64_t item = start; item < start + length; item++) {
            float score = base + scale * (float)multiply_codes(coded, lists->codes + item * lists->code_width,
                                                               lists->code_width);
            if (score < (factors == NULL ? raised->least : raised->slope * factors[item] + raised->rest)) continue;
            int64_t row = lists->rows[item];
            if (row < 0 || row >= items->count) {
                succeeded = OUTSIDE;
                break;
            }
            double offset = factors != NULL ? factors[item] : find_offset(raised, row);
            if (is_candidate(request, table, row) && !offer_linear(raised, best, score, offset, row)) succeeded = 0;
        }
    }
end:
    free(centred);
    free(coded);
    free(products);
    free(nearest.entries);
    return succeeded;
}

/* Score items precisely, with what boosts them, and offer them. */
FAST static int score_items(const Catalogue *items, const Request *request, const double *query, const Table *table,
                            const Entry *entries, int64_t count, Best *best) {
    int64_t ahead = 8;
    for (int64_t i = 0; i < count; i++) {
        if (i + ahead < count) {
            const char *next = (const char *)(items->items + entries[i + ahead].row * items->width);
            for (int64_t byte = 0; byte < items->width * 4 && byte < 512; byte += 64) __builtin_prefetch(next + byte);
        }
        int64_t row = entries[i].row;
        double score = score_precisely(query, items->items + row * items->width, items->width, items->hyperbolic,
                                       request->by_distance);
        if (request->raised && items->item_offsets != NULL) score += items->item_offsets[row];
        Slot *slot = find(table, row);
        if (slot->boosted) {
            slot->scored = 1;
            score += find_boost(items, table, slot);
        }
        if (!offer(best, score, row)) return 0;
    }
    return 1;
}

/* Boosted items that are not scored yet and may be recommended. */
static inline int is_left(const Request *request, const Slot *slot) {
    return !slot->scored && !slot->excluded && is_set(request->eligible, slot->key - 1);
}

static int64_t collect_repeated(const Request *request, const Table *table, const int64_t *boosted, int64_t count,
                                Entry *entries) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        const Slot *slot = &table->slots[boosted[i]];
        if (slot->added > 0 && is_left(request, slot)) entries[found++].row = slot->key - 1;
    }
    return found;
}

/* Collect the remembered items that may reach the bound. Most do not, and need neither a logarithm nor a root: an item
 * with a share of the unit below 2^-e has a boost below that of 2^-e, and so needs a linear score that is known. */
FAST static int64_t collect_remembered(const Catalogue *items, const Request *request, const double *query,
                                       const Raised *raised, const Table *table, const float *linear,
                                       const int64_t *boosted, int64_t count, double bound, Entry *entries) {
    int64_t width = items->width, padded = (width + LANES - 1) / LANES * LANES, found = 0;
    int64_t safe = items->count - (padded - width + width - 1) / width;
    int curved = items->hyperbolic && request->by_distance, squares = request->by_distance && !items->hyperbolic;
    double error = find_error(items, request, query), squared = 0, greatest[SHARES];
    for (int64_t i = 0; i < width; i++) squared += query[i] * query[i];
    for (int e = 0; e < SHARES; e++) { /* the distance at which an item without offset reaches the bound; or its exp */
        double boost = items->memory_weight * log1p(items->sharpness * ldexp(1, -e));
        greatest[e] = boost - bound + (fabs(bound) + boost + 1) * 0x1p-40;
        if (curved) greatest[e] = exp(greatest[e] + (raised->by_factors ? raised->greatest : 0)) * (1 + 0x1p-20);
    }
    for (int64_t i = 0; i < count; i++) {
        const Slot *slot = &table->slots[boosted[i]];
        if (!(slot->sum > 0) || !is_left(request, slot)) continue;
        int64_t row = slot->key - 1;
        double share = slot->sum / table->unit;
        if (share <= 1 && bound > -INFINITY) {
            int exponent = 0;
            frexp(share, &exponent); /* below 2^exponent */
            int e = exponent > 0 ? 0 : -exponent < SHARES ? -exponent : SHARES - 1;
            const float *point = items->items + row * width;
            double reach = row < safe ? multiply(linear, point, padded) : multiply_exactly(linear, point, width);
            if (squares) reach -= half_square(point, width);
            reach += error;
            if (curved) {
                double ratio = raised->by_factors ? greatest[e] * find_offset(raised, row) : greatest[e];
                if (ratio < 1 || reach < -(ratio + 1 / ratio) / 2) continue;
            } else {
                double distance = greatest[e] + find_offset(raised, row); /* in flat space; else minus the product */
                if (squares ? distance < 0 || squared - 2 * reach > distance * distance : reach < -distance) continue;
            }
        }
        entries[found++].row = row;
    }
    return found;
}

/* Write the rows of the best items and their scores, best first, ties by row; and the point of the query.
 *
 * Returns their number, or one of the names above: TOO_FEW if fewer than k candidates may be recommended, OUTSIDE for a
 * row or an offset that is not in its array. */
int64_t rank(const Catalogue *items, const Request *request, double *query, int64_t *rows, float *scores) {
    int64_t pairs = 0, found = NO_MEMORY, k = request->k, padded = (items->width + LANES - 1) / LANES * LANES;
    if (!are_within(request->history, request->history_count, 0, items->count + items->new_count) ||
        !are_within(request->known, request->known_count, 0, items->count) ||
        !are_within(request->repeated, request->repeated_count, 0, items->count) ||
        !are_within(request->excluded, request->excluded_count, 0, INT64_MAX) ||
        !are_within(request->candidates, request->candidate_count, -1, items->count))
        return OUTSIDE;
    for (int64_t i = 0; request->boosted && i < request->known_count; i++) {
        if (request->shares[i] == 0) continue;
        int64_t start, length = find_group(items->neighbour_offsets, request->known[i], items->neighbour_count, &start);
        if (length < 0) return OUTSIDE;
        pairs += length;
    }
    if (request->query != NULL)
        memcpy(query, request->query, items->width * sizeof(double));
    else if (!find_midpoint(items, request, query))
        return NO_MIDPOINT;
    Table table = {0};
    Best near = {0}, best = {0};
    int64_t boosts = pairs + request->repeated_count; /* that many at most, and one per item */
    if (boosts > items->count) boosts = items->count;
    int64_t *boosted = malloc((boosts + 1) * sizeof(int64_t));
    float *linear = malloc(padded * sizeof(float));
    if (boosted == NULL || linear == NULL ||
        !start_table(&table, boosts + request->excluded_count, items->count))
        goto end;
    for (int64_t i = 0; i < request->excluded_count; i++) enter(&table, request->excluded[i])->excluded = 1;
    int64_t boosted_count = find_boosts(items, request, &table, boosted, pairs);
    if (boosted_count < 0) {
        found = OUTSIDE;
        goto end;
    }
    int64_t wanted = k > request->wanted ? k : request->wanted;
    if (request->candidates != NULL) wanted = request->candidate_count + 1;
    double error = request->lists != NULL ? 0 : find_error(items, request, query);
    Raised raised = make_raised(items, request, query, error);
    if (!start_best(&near, wanted) || !start_best(&best, k)) goto end;
    make_linear(items, query, linear, padded);
    int succeeded = 1;
    if (request->candidates != NULL) {
        for (int64_t i = 0; i < request->candidate_count && succeeded; i++) {
            int64_t row = request->candidates[i];
            if (row >= 0 && is_candidate(request, &table, row)) succeeded = offer(&near, 0, row);
        }
    } else if (request->linear != NULL) {
        succeeded = scan_scores(items, request, &table, &raised, &near);
    } else if (request->lists != NULL) {
        succeeded = scan_lists(items, request, linear, &table, &raised, &near);
    } else {
        succeeded = scan_items(items, request, linear, &table, &raised, &near);
    }
    if (succeeded < 0) found = OUTSIDE;
    if (succeeded <= 0 || !shrink(&near)) goto end;
    if (near.size < k && (request->candidates != NULL || request->lists != NULL)) {
        found = TOO_FEW;
        goto end;
    }
    if (!score_items(items, request, query, &table, near.entries, near.size, &best)) goto end;
    if (boosted_count > near.room) {
        Entry *larger = realloc(near.entries, boosted_count * sizeof(Entry));
        if (larger == NULL) goto end;
        near.entries = larger;
    }
    /* Repeats have the largest boosts: the best of them are what remembered items have to reach. */
    int64_t others = collect_repeated(request, &table, boosted, boosted_count, near.entries);
    if (!score_items(items, request, query, &table, near.entries, others, &best) || !shrink(&best)) goto end;
    others = collect_remembered(items, request, query, &raised, &table, linear, boosted, boosted_count, best.bound,
                                near.entries);
    if (!score_items(items, request, query, &table, near.entries, others, &best) || !shrink(&best)) goto end;
    qsort(best.entries, best.size, sizeof(Entry), compare);
    found = best.size < k ? best.size : k;
    for (int64_t i = 0; i < found; i++) {
        rows[i] = best.entries[i].row;
        scores[i] = (float)best.entries[i].score;
    }
end:
    free(boosted);
    free(linear);
    free(table.slots);
    free(near.entries);
    free(best.entries);
    return found;
}
