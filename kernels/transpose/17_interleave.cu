// Idea: matrices of a few columns, such as an image's colours: one tensor has a tile in one piece,
//   which moves by 16 bytes, the other in a line for each column, which move by words.
// From tiles: nothing is looked up, and a word is made of the elements that share it: 8 columns of
//   bytes or one of 64 bits cost alike.
// Traffic: every byte once, in pieces of 8 KiB and more.
// Limits: 2 to 8 columns of x that lie side by side, row after row, or as many rows of y; lines of
//   whole words, matrices of whole pieces of 16 bytes.
// Long: both ways, from pieces to lines and from lines to pieces.
#include "catalogue/row_layout.hpp"
#include "kernels/transpose/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/transpose.hpp"

namespace ws::transpose {
namespace {

constexpr int kMostLines = 8;
constexpr int kThreads = 256;
constexpr int kTileBytes = 16384;

// A batch of groups of a few lines: element i of line n lies at planar[n * pitch + i] of the one
// tensor, and at interleaved[i * lines + n] of the other.
struct Lines {
  int lines = 0;
  int64_t length = 0;
  int64_t pitch = 0;
  int64_t batch = 0;
  int64_t planar_batch = 0;
  int64_t interleaved_batch = 0;
  bool apart = false;  // from interleaved x to planar y

  explicit Lines(const Permutation& call) {
    Matrices m;
    if (!as_matrices(call, m)) return;
    apart = m.columns <= kMostLines && m.x_pitch == m.columns;
    const bool together = m.rows <= kMostLines && m.y_pitch == m.rows;
    if (!apart && !together) return;
    batch = m.batch;
    lines = static_cast<int>(apart ? m.columns : m.rows);
    length = apart ? m.rows : m.columns;
    pitch = apart ? m.y_pitch : m.x_pitch;
    planar_batch = apart ? m.y_batch : m.x_batch;
    interleaved_batch = apart ? m.x_batch : m.y_batch;
  }
  bool is_whole(const Permutation& call) const {
    const int64_t word = thread::elements_of_word(call.element_bytes);
    const int64_t piece = 16 / call.element_bytes;
    const void* planar = apart ? call.y : call.x;
    const void* interleaved = apart ? call.x : call.y;
    return length % word == 0 && pitch % word == 0 && planar_batch % word == 0 &&
           lines * length % piece == 0 && interleaved_batch % piece == 0 &&
           reinterpret_cast<intptr_t>(planar) % (word * call.element_bytes) == 0 &&
           reinterpret_cast<intptr_t>(interleaved) % 16 == 0;
  }

  // How many elements of each line a tile has: whole words of all threads.
  int64_t width(int element_bytes) const {
    const int64_t round = kThreads * thread::elements_of_word(element_bytes);
    return kTileBytes / element_bytes / lines / round * round;
  }
  // Of a group of lines.
  int64_t tiles(int element_bytes) const { return divide_up(length, width(element_bytes)); }
};

template <class T, bool kApart>
struct InterleaveKernel {
  static constexpr int kThreads = transpose::kThreads;
  static constexpr int kMinBlocks = 5;
  static constexpr int kBatch = sizeof(T) == 8 ? 4 : 8;       // words of a thread on their way
  static constexpr int kPieces = kTileBytes / 16 / kThreads;  // of 16 bytes
  static constexpr int kOfWord = thread::elements_of_word(sizeof(T));
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kWordsOfPiece = 16 / static_cast<int>(sizeof(Word));
  static constexpr int kRound = kThreads * kOfWord;  // elements of a line, a word for each thread
  static constexpr int kElements = kTileBytes / static_cast<int>(sizeof(T));

  struct Arguments {
    const T* x;
    T* y;
    int lines;
    int width;
    int64_t length;
    int64_t pitch;
    int64_t planar_batch;
    int64_t interleaved_batch;
    int64_t tiles;  // of a group of lines
  };
  // Interleaved. Pieces are words: of elements the compiler would make them anew.
  struct SharedStorage {
    SharedArray<Word, kElements / kOfWord> words;
    __device__ __forceinline__ SharedSpan<T> elements() {
      return {reinterpret_cast<T*>(words.pointer()), kElements};
    }
  };

  // A walk over a thread's words of all lines.
  struct Cursor {
    int line = 0;
    int first = thread_index() * kOfWord;
    __device__ __forceinline__ void advance(int lines) {
      line = line + 1 == lines ? 0 : line + 1;
      if (line == 0) first += kRound;
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t group = block_index() / a.tiles;
    const int64_t start = block_index() % a.tiles * a.width;
    const int64_t left = a.length - start;
    const int width = left < a.width ? static_cast<int>(left) : a.width;
    const int64_t planar = group * a.planar_batch + start;
    const int64_t interleaved = group * a.interleaved_batch + start * a.lines;
    const SharedSpan<T> elements = shared.elements();
    if constexpr (kApart) {
      bring_pieces(shared, a.x + interleaved, width * a.lines);
      ptx::barrier_sync();
      for (Cursor at; at.first < width; at.advance(a.lines)) {
        Vec<T, kOfWord> word;
#pragma unroll
        for (int i = 0; i < kOfWord; ++i) word[i] = elements[(at.first + i) * a.lines + at.line];
        thread::store(a.y + planar + at.line * a.pitch + at.first, word);
      }
    } else {
      for (Cursor at; at.first < width;) {
        Word words[kBatch];
        Cursor next = at;
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
          if (next.first < width) {
            words[n] = thread::load(
                reinterpret_cast<const Word*>(a.x + planar + next.line * a.pitch + next.first));
          }
          next.advance(a.lines);
        }
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
          if (at.first < width) {
#pragma unroll
            for (int i = 0; i < kOfWord; ++i) {
              elements[(at.first + i) * a.lines + at.line] =
                  static_cast<T>(words[n] >> (i * 8 * static_cast<int>(sizeof(T))));
            }
          }
          at.advance(a.lines);
        }
      }
      ptx::barrier_sync();
      take_pieces(shared, a.y + interleaved, width * a.lines);
    }
  }

  // visit(n, i) for each of a thread's pieces, which begins at word i.
  template <class Visit>
  __device__ __forceinline__ static void for_pieces(int elements, const Visit& visit) {
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
      const int i = (n * kThreads + thread_index()) * kWordsOfPiece;
      if (i * kOfWord < elements) visit(n, i);
    }
  }
  __device__ __forceinline__ static void bring_pieces(SharedStorage& shared, const T* x,
                                                      int elements) {
    const auto* words = reinterpret_cast<const Word*>(x);
    Vec<Word, kWordsOfPiece> pieces[kPieces];
    for_pieces(elements, [&](int n, int i) { pieces[n] = thread::load<kWordsOfPiece>(words + i); });
    for_pieces(elements,
               [&](int n, int i) { shared.words.template store<kWordsOfPiece>(i, pieces[n]); });
  }
  __device__ __forceinline__ static void take_pieces(SharedStorage& shared, T* y, int elements) {
    auto* words = reinterpret_cast<Word*>(y);
    for_pieces(elements, [&](int /*n*/, int i) {
      thread::store(words + i, shared.words.template load<kWordsOfPiece>(i));
    });
  }
};

struct Interleave {
  static bool supports(const Permutation& call, Why& why) {
    const Lines lines(call);
    return why.unless(lines.lines > 0, "takes matrices of 2 to ", kMostLines,
                      " columns of x, or rows of y, that lie in one piece") &&
           why.unless(lines.is_whole(call),
                      "takes lines in whole words of 4 bytes and matrices in pieces of 16, not ",
                      lines.lines, " lines of ", lines.length, " elements of ", call.element_bytes,
                      " bytes") &&
           why.unless(lines.batch * lines.tiles(call.element_bytes) <= kMostBlocks, "takes up to ",
                      kMostBlocks, " tiles, not those of ", lines.batch, " matrices");
  }
  static void run(const Permutation& call, const Context& context) {
    const Lines lines(call);
    with_element(call.element_bytes, [&]<class T>() {
      lines.apart ? run_as<InterleaveKernel<T, true>, T>(call, lines, context.stream)
                  : run_as<InterleaveKernel<T, false>, T>(call, lines, context.stream);
    });
  }

 private:
  template <class Kernel, class T>
  static void run_as(const Permutation& call, const Lines& lines, Stream stream) {
    const int64_t width = lines.width(call.element_bytes);
    const int64_t tiles = lines.tiles(call.element_bytes);
    launch<Kernel>({.blocks = lines.batch * tiles, .threads = Kernel::kThreads}, stream,
                   {static_cast<const T*>(call.x), static_cast<T*>(call.y), lines.lines,
                    static_cast<int>(width), lines.length, lines.pitch, lines.planar_batch,
                    lines.interleaved_batch, tiles});
  }
};

}  // namespace

extern const Rung kInterleave;
constinit const Rung kInterleave = rung_of<Interleave, Transpose, Permute>({
    .name = "interleave",
    .from = "tiles",
    .idea = "a few columns: one side in a piece by 16 bytes, the other in lines by words",
});

}  // namespace ws::transpose
