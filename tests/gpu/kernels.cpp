// Runs every kernel of src/embed/gpu/kernels.cu on the CPU and compares it with plain loops.
// Prints the first difference and ends with status 1; with 0 if there is none.

#include <cstdio>
#include <cstdlib>
#include <random>

#include "emulator.h"

#include "../../src/embed/gpu/kernels.cu"

static std::mt19937 source(7);

static std::vector<float> numbers(size_t n) {
    std::normal_distribution<float> normal;
    std::vector<float> all(n);
    for (auto &one : all) one = wide(narrow(normal(source)));
    return all;
}

static std::vector<f16> halves(const std::vector<float> &all) {
    std::vector<f16> bits;
    for (float one : all) bits.push_back(narrow(one));
    return bits;
}

static void same(const char *what, const std::vector<float> &got, const std::vector<double> &want) {
    for (size_t i = 0; i < want.size(); i++) {
        if (!(std::fabs(got[i] - want[i]) <= 2e-3 * (1.0 + std::fabs(want[i])))) {
            printf("%s: number %zu is %g, not %g\n", what, i, got[i], want[i]);
            exit(1);
        }
    }
}

static std::vector<float> widened(const std::vector<f16> &bits) {
    std::vector<float> all;
    for (f16 one : bits) all.push_back(wide(one));
    return all;
}

static std::vector<double> layer_norm(std::vector<double> row, const std::vector<float> &gamma,
                                      const std::vector<float> &beta) {
    double mean = 0, squares = 0;
    for (double one : row) mean += one / row.size();
    for (double one : row) squares += (one - mean) * (one - mean) / row.size();
    for (size_t i = 0; i < row.size(); i++) {
        row[i] = (row[i] - mean) / std::sqrt(squares + 1e-12) * gamma[i] + beta[i];
    }
    return row;
}

static void conversions() {
    for (unsigned bits = 0; bits < 0x7c00; bits++) {
        if (narrow(wide((f16)bits)) != bits) {
            printf("conversion: %u does not come back\n", bits);
            exit(1);
        }
    }
}

static void norms() {
    const int width = 200, tokens = 3;
    auto words = numbers(5 * width), places = numbers(4 * width), kind = numbers(width);
    auto gamma = numbers(width), beta = numbers(width), y = numbers(tokens * width);
    int ids[] = {4, 0, 2}, positions[] = {0, 1, 3};
    auto w = halves(words), p = halves(places), k = halves(kind);
    std::vector<f16> x(tokens * width);
    launch({tokens, 1}, ROW_THREADS, [&] {
        embed(ids, positions, w.data(), p.data(), k.data(), gamma.data(), beta.data(), 1e-12f,
              width, x.data());
    });
    std::vector<double> want;
    for (int t = 0; t < tokens; t++) {
        std::vector<double> row;
        for (int i = 0; i < width; i++) {
            row.push_back(words[ids[t] * width + i] + places[positions[t] * width + i] + kind[i]);
        }
        for (double one : layer_norm(row, gamma, beta)) want.push_back(one);
    }
    same("embed", widened(x), want);

    auto before = widened(x);
    auto added = halves(y);
    launch({tokens, 1}, ROW_THREADS,
           [&] { add_norm(x.data(), added.data(), gamma.data(), beta.data(), 1e-12f, width); });
    want.clear();
    for (int t = 0; t < tokens; t++) {
        std::vector<double> row;
        for (int i = 0; i < width; i++) row.push_back(before[t * width + i] + y[t * width + i]);
        for (double one : layer_norm(row, gamma, beta)) want.push_back(one);
    }
    same("add_norm", widened(x), want);
}

static void activations() {
    auto in = numbers(300);
    for (int kind = 0; kind < 3; kind++) {
        auto x = halves(in);
        launch({2, 1}, 256, [&] { activate(x.data(), x.size(), kind); });
        std::vector<double> want;
        for (double v : in) {
            double by_tanh = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
            double by_erf = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
            want.push_back(kind == 0 ? by_erf : kind == 1 ? by_tanh : std::max(v, 0.0));
        }
        same("activate", widened(x), want);
    }
}

// Two sequences; the second is longer than a tile.
static void attention(int dim) {
    const int heads = 2, starts[] = {0, 5, 5 + TILE + 9}, tokens = starts[2];
    const int width = heads * dim;
    auto in = numbers((size_t)tokens * 3 * width);
    auto qkv = halves(in);
    std::vector<int> tiles;
    for (int s = 0; s < 2; s++) {
        for (int at = starts[s]; at < starts[s + 1]; at += TILE) {
            tiles.insert(tiles.end(), {at, starts[s], starts[s + 1]});
        }
    }
    float scale = 1.0f / std::sqrt((float)dim);
    std::vector<f16> out((size_t)tokens * width);
    launch({(unsigned)tiles.size() / 3, heads}, TILE, [&] {
        (dim == 32 ? attend_32 : attend_64)(qkv.data(), tiles.data(), heads, scale, out.data());
    });
    std::vector<double> want((size_t)tokens * width);
    for (int s = 0; s < 2; s++) {
        for (int h = 0; h < heads; h++) {
            for (int t = starts[s]; t < starts[s + 1]; t++) {
                std::vector<double> weights;
                double total = 0;
                for (int k = starts[s]; k < starts[s + 1]; k++) {
                    double dot = 0;
                    for (int i = 0; i < dim; i++) {
                        dot += (double)in[((size_t)t * 3) * width + h * dim + i] *
                               in[((size_t)k * 3 + 1) * width + h * dim + i];
                    }
                    weights.push_back(std::exp(dot * scale));
                    total += weights.back();
                }
                for (int i = 0; i < dim; i++) {
                    double sum = 0;
                    for (int k = starts[s]; k < starts[s + 1]; k++) {
                        sum += weights[k - starts[s]] * in[((size_t)k * 3 + 2) * width + h * dim + i];
                    }
                    want[(size_t)t * width + h * dim + i] = sum / total;
                }
            }
        }
    }
    same(dim == 32 ? "attend_32" : "attend_64", widened(out), want);
}

static void pools() {
    const int width = 150, starts[] = {0, 3, 4};
    auto in = numbers(4 * width);
    auto x = halves(in);
    for (int first_only = 0; first_only < 2; first_only++) {
        std::vector<float> out(2 * width);
        launch({2, 1}, ROW_THREADS, [&] { pool(x.data(), starts, width, first_only, out.data()); });
        std::vector<double> want;
        for (int s = 0; s < 2; s++) {
            int end = first_only ? starts[s] + 1 : starts[s + 1];
            std::vector<double> row(width);
            double squares = 0;
            for (int i = 0; i < width; i++) {
                for (int t = starts[s]; t < end; t++) row[i] += in[t * width + i];
                squares += row[i] * row[i];
            }
            for (double one : row) want.push_back(one / std::sqrt(squares));
        }
        same("pool", out, want);
    }
}

// Scores with many ties: small whole numbers.
static void selection() {
    const unsigned n = SORT_ROWS + 77, queries = 2;
    const int dim = 40, k = 33;
    std::uniform_int_distribution<int> small(-2, 2);
    std::vector<float> rows(n * dim), asked(queries * dim);
    for (auto &one : rows) one = small(source);
    for (auto &one : asked) one = small(source);
    auto stored = halves(rows);

    std::vector<float> all(queries * n);
    std::vector<std::vector<unsigned>> want(queries);
    for (unsigned q = 0; q < queries; q++) {
        for (unsigned r = 0; r < n; r++) {
            for (int i = 0; i < dim; i++) all[q * n + r] += rows[r * dim + i] * asked[q * dim + i];
            want[q].push_back(r);
        }
        std::sort(want[q].begin(), want[q].end(), [&](unsigned a, unsigned b) {
            float x = all[q * n + a], y = all[q * n + b];
            return x != y ? x > y : a < b;
        });
    }
    const unsigned lists = (n + SORT_ROWS - 1) / SORT_ROWS;
    std::vector<float> scores(queries * lists * k), best(queries * k);
    std::vector<unsigned> ids(queries * lists * k), winners(queries * k);
    auto check = [&](const char *what, unsigned shift) {
        launch({1, queries}, SORT_THREADS, [&] {
            select_pairs(scores.data(), ids.data(), lists * k, k, best.data(), winners.data());
        });
        for (unsigned q = 0; q < queries; q++) {
            for (int i = 0; i < k; i++) {
                unsigned row = want[q][i];
                if (winners[q * k + i] != row + shift || best[q * k + i] != all[q * n + row]) {
                    printf("%s: query %u place %d is row %u, not %u\n", what, q, i,
                           winners[q * k + i], row + shift);
                    exit(1);
                }
            }
        }
    };
    launch({lists, queries}, SORT_THREADS, [&] {
        score_rows(stored.data(), asked.data(), n, dim, k, scores.data(), ids.data());
    });
    check("score_rows", 0);
    launch({lists, queries}, SORT_THREADS,
           [&] { select_rows(all.data(), n, 1000, k, scores.data(), ids.data()); });
    check("select_rows", 1000);
}

int main() {
    conversions();
    norms();
    activations();
    attention(32);
    attention(64);
    pools();
    selection();
    puts("all kernels agree with plain loops");
}
