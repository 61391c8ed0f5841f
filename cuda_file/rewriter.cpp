#include "cuda_file/rewriter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "cuda_file/tokens.hpp"
#include "warpsmith/error.hpp"

namespace ws::cuda_file {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  require(stream.good() && !fs::is_directory(path), path.string(), " cannot be read");
  return text.str();
}

// ---- What is known not to work -----------------------------------------------------------------

struct Unsupported {
  std::string_view word;  // or the beginning of one, with a * at its end
  std::string_view why;
};
constexpr auto kUnsupported = std::to_array<Unsupported>({
    {"tex1D*", "textures"},
    {"tex2D*", "textures"},
    {"tex3D*", "textures"},
    {"texture", "textures"},
    {"cudaTexture*", "textures"},
    {"cudaCreateTexture*", "textures"},
    {"cudaBindTexture*", "textures"},
    {"cudaCreateChannelDesc", "textures and arrays"},
    {"cudaResourceDesc", "textures and surfaces"},
    {"cudaArray*", "arrays of textures and surfaces"},
    {"cudaMallocArray", "arrays of textures and surfaces"},
    {"surf1D*", "surfaces"},
    {"surf2D*", "surfaces"},
    {"surf3D*", "surfaces"},
    {"surface", "surfaces"},
    {"cudaSurface*", "surfaces"},
    {"__shfl", "__shfl without _sync: gone since Volta; say __shfl_sync(mask, ...)"},
    {"__shfl_up", "__shfl_up without _sync: gone since Volta; say __shfl_up_sync(mask, ...)"},
    {"__shfl_down", "__shfl_down without _sync: gone since Volta; say __shfl_down_sync(mask, ...)"},
    {"__shfl_xor", "__shfl_xor without _sync: gone since Volta; say __shfl_xor_sync(mask, ...)"},
    {"__ballot", "__ballot without _sync: gone since Volta; say __ballot_sync(mask, ...)"},
    {"__any", "__any without _sync: gone since Volta; say __any_sync(mask, ...)"},
    {"__all", "__all without _sync: gone since Volta; say __all_sync(mask, ...)"},
    {"cublas*", "cuBLAS"},
    {"cudnn*", "cuDNN"},
    {"cufft*", "cuFFT"},
    {"cusparse*", "cuSPARSE"},
    {"cusolver*", "cuSOLVER"},
    {"curand*", "cuRAND"},
    {"thrust", "Thrust"},
    {"cub", "CUB"},
    {"cutlass", "CUTLASS"},
    {"cute", "CuTe"},
    {"nccl*", "NCCL"},
    {"nvrtc*", "NVRTC"},
    {"multi_grid_group", "groups over several devices, which CUDA 13 has no more"},
    {"this_multi_grid", "groups over several devices, which CUDA 13 has no more"},
    {"cudaLaunchCooperativeKernelMultiDevice",
     "groups over several devices, which CUDA 13 has no more"},
    {"experimental", "wmma's matrices of 4 bits and of one"},
    {"bmma_sync", "wmma's matrices of 4 bits and of one"},
    {"cudaGraph_t", {}},  // those that a stream has captured are there
    {"cudaGraphNode_t", {}},
    {"cudaGraphExec_t", {}},
    {"cudaGraphGetNodes", {}},
    {"cudaGraphInstantiate", {}},
    {"cudaGraphInstantiateWithFlags", {}},
    {"cudaGraphUpload", {}},
    {"cudaGraphLaunch", {}},
    {"cudaGraphDestroy", {}},
    {"cudaGraphExecDestroy", {}},
    {"cudaGraph*", "CUDA graphs that are built or changed node by node"},
    {"cudaStreamBeginCaptureToGraph", "CUDA graphs that are built or changed node by node"},
    {"cudaStreamGetCaptureInfo*", "CUDA graphs that are built or changed node by node"},
    {"cudaStreamUpdateCapture*", "CUDA graphs that are built or changed node by node"},
    {"cudaThreadExchangeStreamCaptureMode", "another capture mode for a thread"},
    {"cudaIpc*", "memory shared between processes"},
    {"cudaMemPool*", "memory pools"},
    {"cuLaunchKernel", "the driver's API"},
    {"cuModule*", "the driver's API"},
    {"cuCtx*", "the driver's API"},
    {"cuMem*", "the driver's API"},
    {"cuInit", "the driver's API"},
});

std::string_view unsupported(std::string_view word) {
  for (const Unsupported& known : kUnsupported) {
    const bool open = known.word.ends_with('*');
    const std::string_view stem = known.word.substr(0, known.word.size() - (open ? 1 : 0));
    if (open ? word.starts_with(stem) : word == stem) return known.why;
  }
  return {};
}

constexpr std::array kLibraries = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"cublas", "cuBLAS"},
    {"cudnn", "cuDNN"},
    {"cufft", "cuFFT"},
    {"cusparse", "cuSPARSE"},
    {"cusolver", "cuSOLVER"},
    {"curand", "cuRAND"},
    {"thrust/", "Thrust"},
    {"cub/", "CUB"},
    {"cutlass/", "CUTLASS"},
    {"cute/", "CuTe"},
    {"nccl", "NCCL"},
    {"nvrtc", "NVRTC"},
    {"cuda/", "libcu++"},
    {"cuda_awbarrier", "the barriers of <cuda_awbarrier.h>, which arrive and wait apart"},
    {"cuda_gl_interop", "OpenGL"},
    {"GL/", "OpenGL"},
    {"cuda_texture_types", "textures"},
    {"texture_", "textures"},
    {"surface_", "surfaces"},
    {"npp", "NPP"},
    {"nvjpeg", "nvJPEG"},
    {"torch/", "PyTorch"},
    {"ATen/", "PyTorch"},
    {"nvml", "NVML"},
});

std::string_view library_of(std::string_view header) {
  for (const auto& [stem, name] : kLibraries) {
    if (header.starts_with(stem)) return name;
  }
  return {};
}

// ---- Tokens with what becomes of them ----------------------------------------------------------

// A row of tokens in which each has a text of its own that may be changed.
class Row {
 public:
  explicit Row(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    out_.reserve(tokens_.size());
    for (const Token& token : tokens_) out_.emplace_back(token.text);
  }
  size_t size() const { return tokens_.size(); }
  const Token& operator[](size_t i) const { return tokens_[i]; }
  std::string& out(size_t i) { return out_[i]; }
  bool is(size_t i, std::string_view text) const { return i < size() && tokens_[i].text == text; }
  bool is_word(size_t i) const { return i < size() && tokens_[i].kind == TokenKind::kWord; }

  // The next one that is no space, from i on; size() where there is none.
  size_t next(size_t i) const {
    while (i < size() && tokens_[i].kind == TokenKind::kSpace) ++i;
    return i;
  }
  // The one before i that is no space; kNone where there is none.
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t before(size_t i) const {
    while (i-- > 0) {
      if (tokens_[i].kind != TokenKind::kSpace) return i;
    }
    return kNone;
  }
  // Of a bracket the one that closes it, forward; kNone where it stays open.
  size_t closing(size_t i) const {
    int depth = 0;
    for (; i < size(); ++i) {
      if (is(i, "(") || is(i, "[") || is(i, "{")) ++depth;
      if ((is(i, ")") || is(i, "]") || is(i, "}")) && --depth == 0) return i;
    }
    return kNone;
  }
  size_t opening(size_t i) const {
    int depth = 0;
    for (;; --i) {
      if (is(i, ")") || is(i, "]") || is(i, "}")) ++depth;
      if ((is(i, "(") || is(i, "[") || is(i, "{")) && --depth == 0) return i;
      if (i == 0) return kNone;
    }
  }
  // From the > at i back to its <.
  size_t opening_angle(size_t i) const {
    int depth = 0;
    for (;; --i) {
      if (is(i, ")") || is(i, "]") || is(i, "}")) {
        i = opening(i);
        if (i == kNone) return kNone;
      }
      if (is(i, ">")) ++depth;
      if (is(i, "<") && --depth == 0) return i;
      if (is(i, ";") || is(i, "{") || i == 0) return kNone;
    }
  }
  // From the < at i to its >, if it is a template's.
  size_t closing_angle(size_t i) const {
    int depth = 0;
    for (; i < size(); ++i) {
      if (is(i, "(") || is(i, "[") || is(i, "{")) {
        i = closing(i);
        if (i == kNone) return kNone;
      }
      if (is(i, "<")) ++depth;
      if (is(i, ">") && --depth == 0) return i;
      if (is(i, ";") || is(i, ")")) return kNone;
    }
    return kNone;
  }

  std::string text(size_t from, size_t to) const {  // [from, to)
    std::string result;
    for (size_t i = from; i < to; ++i) {
      const bool space = tokens_[i].kind == TokenKind::kSpace;
      result += space ? std::string(" ") : std::string(tokens_[i].text);
    }
    while (result.ends_with(' ')) result.pop_back();
    return result;
  }
  std::string joined() const {
    std::string result;
    for (const std::string& piece : out_) result += piece;
    return result;
  }

 private:
  std::vector<Token> tokens_;
  std::vector<std::string> out_;
};

std::string literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

// ---- What the sources declare ------------------------------------------------------------------

struct Declared {
  std::set<std::string, std::less<>> deduced;  // kernels whose types arguments must tell
  std::set<std::string, std::less<>> kernels;
  std::map<std::string, std::string, std::less<>> clusters;  // of kernels with __cluster_dims__
  std::map<std::string, std::string, std::less<>> bounds;  // of declarations with __launch_bounds__
  std::set<std::string, std::less<>> shared_words = {"__shared__"};  // macros that stand for it
  std::set<std::string, std::less<>> global_words = {
      "__global__"};  // or begin with it, and no more
};

// Attributes with parentheses of their own, which are no parameters.
bool takes_parentheses(std::string_view word) {
  return word == "__launch_bounds__" || word == "__cluster_dims__" || word == "__maxnreg__" ||
         word == "__align__" || word == "alignas" || word == "__attribute__" ||
         word == "__block_size__" || word == "decltype" || word == "__declspec";
}

// Where in "#define NAME(...) body" the body begins; 0 where the directive is another one.
size_t body_of_macro(std::string_view directive) {
  const std::vector<Token> tokens = tokens_of(directive, 1, true);
  const Row row(tokens);
  const size_t define = row.next(1);
  if (!row.is(define, "define")) return 0;
  const size_t name = row.next(define + 1);
  if (name >= row.size()) return 0;
  size_t last = name;
  if (row.is(name + 1, "(")) {  // with no space between them
    last = row.closing(name + 1);
    if (last == Row::kNone) return 0;
  }
  return static_cast<size_t>(tokens[last].text.data() + tokens[last].text.size() -
                             directive.data());
}

std::string name_of_macro(const Token& directive) {
  const Row head(tokens_of(directive.text, directive.line, true));
  return std::string(head[head.next(head.next(1) + 1)].text);
}

void declare_kernels(const Row& row, Declared& declared) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i].kind == TokenKind::kDirective) {
      const size_t body_at = body_of_macro(row[i].text);
      if (body_at == 0) continue;
      const std::vector<Token> inside = tokens_of(row[i].text.substr(body_at), row[i].line, true);
      const Row body(inside);
      const size_t only = body.next(0);
      if (body.is(only, "__shared__") && body.next(only + 1) == body.size()) {
        declared.shared_words.emplace(name_of_macro(row[i]));
      }
      bool is_kernels_beginning = false;
      for (size_t b = 0; b < body.size(); ++b) {
        if (body.is(b, "__global__")) is_kernels_beginning = true;
        if (body.is(b, "{") || body.is(b, ";")) {
          is_kernels_beginning = false;
          break;
        }
      }
      if (is_kernels_beginning) declared.global_words.emplace(name_of_macro(row[i]));
      declare_kernels(body, declared);
      continue;
    }
    if (!row.is(i, "__global__")) continue;
    bool is_template = false;
    for (size_t b = row.before(i); b != Row::kNone; b = row.before(b)) {
      if (row.is(b, ";") || row.is(b, "}") || row.is(b, "{") ||
          row[b].kind == TokenKind::kDirective) {
        break;
      }
      if (row.is(b, "template")) is_template = true;
    }
    std::string cluster;
    std::string bounds;
    for (size_t k = i + 1; k < row.size() && !row.is(k, ";") && !row.is(k, "{"); ++k) {
      if (!row.is_word(k)) continue;
      const size_t open = row.next(k + 1);
      if (!row.is(open, "(")) continue;
      if (takes_parentheses(row[k].text)) {
        const std::string_view word = row[k].text;
        k = row.closing(open);
        if (k == Row::kNone) break;
        if (word == "__cluster_dims__") cluster = row.text(open + 1, k);
        if (word == "__launch_bounds__") bounds = row.text(open + 1, k);
        continue;
      }
      const size_t close = row.closing(open);
      if (close == Row::kNone) break;
      const std::string name(row[k].text);
      bool has_defaults = false;
      for (size_t p = open; p < close; ++p) has_defaults = has_defaults || row.is(p, "=");
      const bool is_definition = row.is(row.next(close + 1), "{");
      const bool again = is_definition && !declared.kernels.insert(name).second;
      if (is_template || has_defaults || again) declared.deduced.insert(name);
      if (!cluster.empty()) declared.clusters[name] = cluster;
      if (!bounds.empty() && !is_definition && !is_template) declared.bounds[name] = bounds;
      break;
    }
  }
}

// ---- The rewriting of one row ------------------------------------------------------------------

class Rewriter {
 public:
  Rewriter(Row& row, const Declared& declared, bool in_macro)
      : row_(row), declared_(declared), in_macro_(in_macro) {}

  void rewrite() {
    for (size_t i = 0; i < row_.size(); ++i) {
      const Token& token = row_[i];
      if (token.text == "{") scopes_.push_back(scope_at(i));
      if (token.text == "}" && !scopes_.empty()) {
        scopes_.pop_back();
        std::erase_if(hidden_, [&](const auto& one) { return one.second > scopes_.size(); });
      }
      if (token.text == ";" && scope() != Scope::kCode) hidden_.clear();
      if (token.text == "<<<") launch(i);
      if (token.kind != TokenKind::kWord) continue;
      built_in(i);
      if (outside_.contains(token.text)) use_of_shared(i);
      if (declared_.shared_words.contains(token.text)) shared(i);
      if (token.text == "__device__" || token.text == "__constant__" ||
          token.text == "__managed__") {
        variable(i);
      }
      if (declared_.global_words.contains(token.text)) entry(i);
      if (token.text == "__noinline__") row_.out(i) = "__attribute__((noinline))";
      // Beside `inline` too.
      if (token.text == "__forceinline__") row_.out(i) = "__attribute__((always_inline))";
      if (token.text == "cudaLaunchKernel" || token.text == "cudaLaunchCooperativeKernel") {
        drop_cast(i);
      }
      if (token.text == "asm" || token.text == "__asm__" || token.text == "__asm") assembly(i);
    }
  }

 private:
  enum class Scope { kNamespace, kClass, kCode };

  Scope scope() const {
    if (scopes_.empty()) return in_macro_ ? Scope::kCode : Scope::kNamespace;
    return scopes_.back();
  }

  // What the { at i begins.
  Scope scope_at(size_t i) const {
    if (scope() == Scope::kCode && !(scopes_.empty() && in_macro_)) return Scope::kCode;
    size_t b = row_.before(i);
    if (b == Row::kNone) return scope();
    if (row_.is(b, ")") || row_.is(b, "=") || row_.is(b, "else") || row_.is(b, "do") ||
        row_.is(b, "const") || row_.is(b, "noexcept") || row_.is(b, "override") ||
        row_.is(b, "mutable") || row_.is(b, "]")) {
      return Scope::kCode;
    }
    for (; b != Row::kNone; b = row_.before(b)) {
      if (row_.is(b, ";") || row_.is(b, "}") || row_.is(b, "{")) break;
      if (row_.is(b, ")")) {
        const size_t open = row_.opening(b);
        if (open == Row::kNone) break;
        const size_t word = row_.before(open);
        // A function's parameters, unless they are an attribute's.
        if (word == Row::kNone || !takes_parentheses(row_[word].text)) return Scope::kCode;
        b = open;
        continue;
      }
      if (row_.is(b, "namespace") || row_[b].text == "\"C\"" || row_.is(b, "extern")) {
        return Scope::kNamespace;
      }
      if (row_.is(b, "struct") || row_.is(b, "class") || row_.is(b, "union")) {
        return Scope::kClass;
      }
      if (row_.is(b, "enum")) return Scope::kCode;
    }
    return Scope::kCode;
  }

  // Where the kernel's name, which ends at `last`, begins.
  size_t begin_of_name(size_t last) const {
    size_t at = last;
    for (;;) {
      if (row_.is(at, ">")) {
        at = row_.opening_angle(at);
        if (at == Row::kNone) return last;
        at = row_.before(at);
      } else if (row_.is(at, ")") || row_.is(at, "]")) {
        const bool bracket = row_.is(at, "]");
        at = row_.opening(at);
        if (at == Row::kNone) return last;
        // What stands before [i] belongs to it, and before a call's parentheses; (*pointer) is all.
        const size_t word = row_.before(at);
        if (word == Row::kNone || !(bracket || row_.is_word(word)) || row_.is(word, "return")) {
          return at;
        }
        at = word;
        continue;
      }
      if (at == Row::kNone) return last;
      const size_t sign = row_.before(at);
      if (sign == Row::kNone) return at;
      const bool qualified = row_.is(sign, "::") || row_.is(sign, ".") || row_.is(sign, "->");
      if (row_.is(sign, "template")) {
        at = sign;
        continue;
      }
      if (!qualified) return at;
      const size_t outer = row_.before(sign);
      if (outer == Row::kNone) return sign;
      const bool has_outer =
          row_.is_word(outer) || row_.is(outer, ">") || row_.is(outer, "]") || row_.is(outer, ")");
      if (!has_outer || row_.is(outer, "return")) return sign;
      at = outer;
    }
  }

  // A kernel's definition begins with saying, when that alone is asked, what its __launch_bounds__
  // are, in words that may be its template's.
  void entry(size_t i) {
    std::string bounds;
    const auto take_bounds = [&](size_t word) {
      const size_t open = row_.next(word + 1);
      const size_t close = row_.is(open, "(") ? row_.closing(open) : Row::kNone;
      if (close != Row::kNone && row_.is(word, "__launch_bounds__")) {
        bounds = row_.text(open + 1, close);
      }
      return close;
    };
    bool is_template = false;
    for (size_t b = row_.before(i); b != Row::kNone; b = row_.before(b)) {
      if (row_.is(b, ";") || row_.is(b, "}") || row_.is(b, "{")) break;
      if (row_[b].kind == TokenKind::kDirective) break;
      if (row_.is(b, "__launch_bounds__")) take_bounds(b);
      if (row_.is(b, "template")) is_template = true;
    }
    std::string name;
    size_t at = row_.next(i + 1);
    if (row_.is(at, "(") && row_.closing(at) != Row::kNone) at = row_.closing(at);  // a macro's
    for (; at < row_.size() && !row_.is(at, ";") && !row_.is(at, "{"); ++at) {
      if (!row_.is_word(at) || !row_.is(row_.next(at + 1), "(")) continue;
      const bool is_attribute = takes_parentheses(row_[at].text);
      if (!is_attribute && name.empty()) name = row_[at].text;
      const size_t close = is_attribute ? take_bounds(at) : row_.closing(row_.next(at + 1));
      if (close == Row::kNone) return;
      at = close;
    }
    if (!row_.is(at, "{")) return;
    if (const auto known = declared_.bounds.find(name);
        bounds.empty() && !is_template && known != declared_.bounds.end()) {
      bounds = known->second;  // of its declaration
    }
    row_.out(at) += fmt::format(" if (::ws::cuda_file::is_asked({})) return;", bounds);
  }

  // kernel<<<grid, block>>>(arguments): a call of an object that knows the kernel and is told the
  // rest, so that all stays where it stands.
  void launch(size_t i) {
    const size_t last = row_.before(i);
    if (last == Row::kNone) return;
    // The last three of a run of > that a ( follows.
    size_t end = Row::kNone;
    int depth = 0;
    for (size_t k = i + 1; k < row_.size(); ++k) {
      if (row_.is(k, "(") || row_.is(k, "[") || row_.is(k, "{")) ++depth;
      if (row_.is(k, ")") || row_.is(k, "]") || row_.is(k, "}")) --depth;
      if (depth < 0 || row_.is(k, ";")) return;
      if (depth == 0 && row_.is(k, ">") && row_.is(k + 1, ">") && row_.is(k + 2, ">") &&
          !row_.is(k + 3, ">") && row_.is(row_.next(k + 3), "(")) {
        end = k;
        break;
      }
    }
    if (end == Row::kNone) return;
    const size_t first = begin_of_name(last);
    const std::string name = row_.text(first, last + 1);
    // The name without its qualifiers and arguments.
    std::string plain = name.substr(0, name.find('<'));
    if (const size_t colon = plain.rfind(':'); colon != std::string::npos) {
      plain.erase(0, colon + 1);
    }
    plain.erase(
        0, plain.find_first_not_of(' ') == std::string::npos ? 0 : plain.find_first_not_of(' '));
    while (plain.ends_with(' ')) plain.pop_back();
    if (declared_.deduced.contains(plain)) {
      row_.out(first) =
          fmt::format("::ws::cuda_file::launch_of_template({}, [](auto&... ws_values) {{ ",
                      literal(name)) +
          row_.out(first);
      row_.out(i) = "(ws_values...); }).configure(";
    } else {
      row_.out(first) =
          fmt::format("::ws::cuda_file::launch_of({}, ", literal(name)) + row_.out(first);
      row_.out(i) = ").configure(";
    }
    const auto cluster = declared_.clusters.find(plain);
    row_.out(end) = cluster == declared_.clusters.end()
                        ? ")"
                        : fmt::format(").clustered({{{}}})", cluster->second);
    row_.out(end + 1).clear();
    row_.out(end + 2).clear();
  }

  // threadIdx and its like, unless the file has a variable of that name there, as host code may.
  void built_in(size_t i) {
    static const std::map<std::string_view, std::string_view> kFunctions = {
        {"threadIdx", "thread_index"},
        {"blockIdx", "block_index"},
        {"blockDim", "block_extent"},
        {"gridDim", "grid_extent"}};
    const std::string_view word = row_[i].text;
    const auto function = kFunctions.find(word);
    if (function == kFunctions.end()) return;
    const size_t before = row_.before(i);
    if (before != Row::kNone &&
        (row_.is(before, ".") || row_.is(before, "->") || row_.is(before, "::"))) {
      return;  // a member
    }
    static const std::set<std::string_view> kNoTypes = {"return", "else",  "do", "case",
                                                        "sizeof", "throw", "in"};
    const size_t after = row_.next(i + 1);
    const bool has_type =
        before != Row::kNone && row_.is_word(before) && !kNoTypes.contains(row_[before].text);
    if (has_type || row_.is(after, "(") || row_.is(after, "=") || row_.is(after, "{")) {
      hidden_[word] = scopes_.size() + (scope() == Scope::kCode ? 0 : 1);
    }
    if (!hidden_.contains(word)) {
      row_.out(i) = fmt::format("::ws::cuda_file::device::{}()", function->second);
    }
  }

  struct Statement {
    size_t begin;
    size_t end;  // its ; or, in a macro, one behind its last token
  };
  // The declaration that the word at i is part of.
  Statement statement_around(size_t i) const {
    Statement found{i, i};
    for (size_t b = row_.before(i); b != Row::kNone; b = row_.before(b)) {
      if (row_.is(b, ")")) {
        const size_t open = row_.opening(b);
        const size_t word = open != Row::kNone ? row_.before(open) : Row::kNone;
        if (word == Row::kNone || !takes_parentheses(row_[word].text)) break;
        found.begin = b = word;
        continue;
      }
      if (!row_.is_word(b) || row_.is(b, "else") || row_.is(b, "do")) break;
      found.begin = b;
    }
    size_t k = i;
    for (; k < row_.size() && !row_.is(k, ";"); ++k) {
      if (row_.is(k, "(") || row_.is(k, "[") || row_.is(k, "{")) {
        const size_t close = row_.closing(k);
        if (close == Row::kNone) break;
        k = close;
      }
    }
    found.end = k;
    return found;
  }

  // Of struct { ... }, also with a name, the {; kNone of other words.
  size_t body_of_class(size_t i) const {
    if (!row_.is(i, "struct") && !row_.is(i, "class") && !row_.is(i, "union")) return Row::kNone;
    size_t open = row_.next(i + 1);
    while (row_.is_word(open)) {
      const bool is_attribute = takes_parentheses(row_[open].text);
      open = row_.next(open + 1);
      if (!is_attribute || !row_.is(open, "(")) continue;
      open = row_.closing(open);
      if (open == Row::kNone) return open;
      open = row_.next(open + 1);
    }
    return row_.is(open, "{") ? open : Row::kNone;
  }

  // Names that the declaration declares, and where its = stands, if it has one.
  std::vector<size_t> declared_names(const Statement& statement, bool& has_initializer) const {
    std::vector<size_t> names;
    size_t candidate = Row::kNone;
    bool has_type = false;
    bool done = false;  // with this declarator's name
    const auto finish = [&] {
      if (candidate != Row::kNone && !done) names.push_back(candidate);
      done = true;
    };
    for (size_t k = statement.begin; k < statement.end; ++k) {
      if (row_[k].kind == TokenKind::kSpace) continue;
      if (row_.is_word(k)) {
        if (const size_t body = body_of_class(k); body != Row::kNone) {
          k = row_.closing(body);
          if (k == Row::kNone) break;
          continue;
        }
        const size_t after = row_.next(k + 1);
        if (takes_parentheses(row_[k].text) && row_.is(after, "(")) {
          k = row_.closing(after);
          continue;
        }
        if (!done) candidate = k;
        // A template's arguments are part of a type.
        if (!done && !has_type && row_.is(after, "<")) {
          const size_t close = row_.closing_angle(after);
          if (close != Row::kNone && close < statement.end) k = close;
        }
        continue;
      }
      if (row_.is(k, "(") && !done) {  // (*name)[4], or a constructor's arguments
        const size_t close = row_.closing(k);
        const size_t star = row_.next(k + 1);
        if (row_.is(star, "*") || row_.is(star, "&")) {
          candidate = row_.next(star + 1);
          finish();
        } else {
          finish();
          has_initializer = true;
        }
        k = close;
      } else if (row_.is(k, "[") || row_.is(k, "{")) {
        finish();
        if (row_.is(k, "{")) has_initializer = true;
        k = row_.closing(k);
        if (k == Row::kNone) break;
      } else if (row_.is(k, "=")) {
        finish();
        has_initializer = true;
      } else if (row_.is(k, ",")) {
        finish();
        has_type = true;
        done = false;
        candidate = Row::kNone;
      }
    }
    finish();
    return names;
  }

  // __shared__ T a[4], b; becomes a typedef of the same shape, and a reference for each name.
  void shared(size_t i) {
    const Statement statement = statement_around(i);
    bool has_initializer = false;
    const std::vector<size_t> names = declared_names(statement, has_initializer);
    if (names.empty() || statement.end <= row_.next(i + 1)) return;
    bool is_extern = false;
    std::string alignment;
    for (size_t k = statement.begin; k < names.front(); ++k) {
      const std::string_view word = row_[k].text;
      if (word == "extern") is_extern = true;
      if (word == "extern" || word == "static" || declared_.shared_words.contains(word)) {
        row_.out(k).clear();
      }
      if (word == "__align__" || word == "alignas") {
        const size_t open = row_.next(k + 1);
        const size_t close = row_.closing(open);
        if (close == Row::kNone) return;
        alignment = fmt::format(" __attribute__((aligned{}))", row_.text(open, close + 1));
        for (size_t p = k; p <= close; ++p) {
          if (row_[p].kind != TokenKind::kSpace) row_.out(p).clear();
        }
      }
    }
    row_.out(statement.begin).insert(0, "typedef ");
    std::string references;
    for (const size_t name : names) {
      const std::string_view word = row_[name].text;
      row_.out(name) = fmt::format("ws_shared_{}", word);
      if (!is_extern && scope() != Scope::kCode) {
        outside_.emplace(word);
        references += fmt::format(" inline auto ws_name_{0} = [] {{ return \"{0}\"; }};", word);
      } else if (!is_extern) {
        references += fmt::format(
            " ws_shared_{0}& {0} = ::ws::cuda_file::shared<ws_shared_{0}>([] {{ return \"{0}\"; "
            "}});",
            word);
      } else if (scope() == Scope::kCode) {
        references +=
            fmt::format(" ws_shared_{0}& {0} = ::ws::cuda_file::dynamic<ws_shared_{0}>();", word);
      } else {
        references += fmt::format(
            " static const ::ws::cuda_file::Dynamic<std::remove_extent_t<ws_shared_{0}>> {0}{{}};",
            word);
      }
    }
    if (has_initializer) {
      references +=
          " static_assert(sizeof(char) == 0, \"a __shared__ variable cannot have an "
          "initial value\");";
    }
    end_of(statement, alignment + ";" + references);
  }

  // The name of a __shared__ variable that stands outside of functions, where it can be no
  // reference; unless it is another variable's here, after a type or behind a . or ->.
  void use_of_shared(size_t i) {
    static const std::set<std::string_view> kTypes = {"float", "double",   "int",  "char", "short",
                                                      "long",  "unsigned", "bool", "void", "half"};
    const std::string_view word = row_[i].text;
    size_t before = row_.before(i);
    if (before == Row::kNone) return;
    if (row_.is(before, ".") || row_.is(before, "->") || row_.is(before, "::")) return;
    while (before != Row::kNone && (row_.is(before, "*") || row_.is(before, "&"))) {
      const size_t type = row_.before(before);
      if (type != Row::kNone && !row_.is(type, "*") && !row_.is(type, "&") &&
          !kTypes.contains(row_[type].text)) {
        break;
      }
      before = type;
    }
    static const std::set<std::string_view> kNoTypes = {"return", "else", "do", "case", "throw"};
    if (before != Row::kNone && row_.is_word(before) && !kNoTypes.contains(row_[before].text)) {
      hidden_[word] = scopes_.size() + (scope() == Scope::kCode ? 0 : 1);
    }
    if (hidden_.contains(word)) return;
    row_.out(i) = fmt::format("::ws::cuda_file::shared<ws_shared_{0}>(ws_name_{0})", word);
  }

  // Puts a text in place of the ; at the end.
  void end_of(const Statement& statement, const std::string& text) {
    if (statement.end < row_.size()) {
      row_.out(statement.end) = text;
    } else {
      row_.out(row_.size() - 1) += text;
    }
  }

  // __device__ and its like before a variable: the memory is made known.
  void variable(size_t i) {
    const size_t before = row_.before(i);
    if (before != Row::kNone && row_.is(before, "]")) return;  // a lambda's
    if (scope() != Scope::kNamespace) return;
    Statement statement = statement_around(i);
    bool is_extern = false;
    for (size_t k = statement.begin; k < i; ++k) {
      // The first of the words tells for all.
      if (row_.is(k, "__device__") || row_.is(k, "__constant__") || row_.is(k, "__managed__")) {
        return;
      }
    }
    std::string_view kind = "kDevice";
    for (size_t k = statement.begin; k < statement.end; ++k) {
      if (row_.is(k, "extern") || row_.is(k, "template") || row_.is(k, "typedef") ||
          row_.is(k, "using")) {
        is_extern = true;
      }
      if (row_.is(k, "__constant__")) kind = "kConstant";
      if (row_.is(k, "__managed__")) kind = "kManaged";
      if (row_.is(k, "=") || row_.is(k, "[") || row_.is(k, "{")) break;
      if (row_.is(k, "<")) {
        const size_t close = row_.closing_angle(k);
        if (close != Row::kNone) k = close;
      }
      if (row_.is(k, "operator")) return;
      if (!row_.is(k, "(")) continue;
      const size_t word = row_.before(k);
      if (word != Row::kNone && takes_parentheses(row_[word].text)) {
        k = row_.closing(k);
        if (k == Row::kNone) return;
        continue;
      }
      const size_t star = row_.next(k + 1);
      if (!row_.is(star, "*")) return;  // a function
    }
    if (is_extern || (statement.end >= row_.size() && !in_macro_)) return;
    const size_t first = row_.next(i + 1);
    if (row_.is(first, "{") || row_.is(first, ";")) return;
    bool has_initializer = false;
    std::string text = ";";
    for (const size_t name : declared_names(statement, has_initializer)) {
      text += fmt::format(
          " static const ::ws::cuda_file::DeviceVariable ws_variable_{0}(::ws::cuda_file::"
          "VariableKind::{1}, &reinterpret_cast<const volatile char&>({0}), sizeof({0}), "
          "\"{0}\");",
          row_[name].text, kind);
    }
    end_of(statement, text);
  }

  // cudaLaunchKernel((void*)kernel, ...): the kernel's type tells its arguments'.
  void drop_cast(size_t i) {
    const size_t open = row_.next(i + 1);
    if (!row_.is(open, "(")) return;
    const size_t cast = row_.next(open + 1);
    if (row_.is(cast, "(")) {
      const size_t close = row_.closing(cast);
      if (close == Row::kNone || !row_.text(cast, close).ends_with("*")) return;
      for (size_t k = cast; k <= close; ++k) row_.out(k).clear();
    } else if (row_.is(cast, "reinterpret_cast") || row_.is(cast, "static_cast")) {
      const size_t angle = row_.next(cast + 1);
      const size_t close = row_.closing_angle(angle);
      if (close == Row::kNone) return;
      for (size_t k = cast; k <= close; ++k) row_.out(k).clear();
    }
  }

  // Inline PTX, unless it is what CUDA has functions for: a special register, a fence, a barrier.
  void assembly(size_t i) {
    size_t at = row_.next(i + 1);
    while (row_.is(at, "volatile") || row_.is(at, "__volatile__")) at = row_.next(at + 1);
    if (!row_.is(at, "(")) return;
    const size_t text = row_.next(at + 1);
    const size_t close = row_.closing(at);
    if (close == Row::kNone || text >= row_.size() || row_[text].text == "\"\"") return;
    size_t end = text;  // of the pieces of its text
    std::string instruction;
    for (; end < close && row_[end].kind != TokenKind::kSign; ++end) {
      if (row_[end].kind == TokenKind::kText) instruction += row_[end].text;
    }
    std::erase(instruction, '"');
    const Equivalent same = equivalent_of(instruction);
    size_t left = Row::kNone;  // the ( of its only operand, which stays
    size_t right = Row::kNone;
    if (same.has_result && row_.is(end, ":")) {
      const size_t constraint = row_.next(end + 1);
      const bool is_output = row_.is(constraint, "\"=r\"") || row_.is(constraint, "\"=l\"");
      left = is_output ? row_.next(constraint + 1) : Row::kNone;
      if (left != Row::kNone) right = row_.is(left, "(") ? row_.closing(left) : Row::kNone;
    }
    const bool is_known = !same.call.empty() && same.has_result == (right != Row::kNone);
    for (size_t k = i; k <= close; ++k) {
      if (is_known && right != Row::kNone && k >= left && k <= right) continue;
      const std::string_view piece = row_[k].text;
      row_.out(k) = std::string(static_cast<size_t>(std::ranges::count(piece, '\n')), '\n');
    }
    if (is_known) {
      (right != Row::kNone ? row_.out(right) : row_.out(i)) +=
          (same.has_result ? " = " : "") + same.call;
      return;
    }
    row_.out(i) = fmt::format("static_assert(sizeof(char) == 0, {})",
                              literal("not supported: inline PTX, " + instruction));
  }

  struct Equivalent {
    std::string call;  // empty: none
    bool has_result = false;
  };
  static Equivalent equivalent_of(std::string_view instruction) {
    static const std::map<std::string, std::string, std::less<>> kStatements = {
        {"membar.cta", "__threadfence_block()"},  {"membar.gl", "__threadfence()"},
        {"membar.sys", "__threadfence_system()"}, {"bar.sync 0", "__syncthreads()"},
        {"barrier.sync 0", "__syncthreads()"},    {"trap", "__trap()"},
    };
    static const std::map<std::string, std::string, std::less<>> kRegisters = {
        {"laneid", "lane()"},
        {"warpid", "warp()"},
        {"smid", "multiprocessor()"},
        {"nsmid", "multiprocessors()"},
        {"lanemask_eq", "lane_mask_equal()"},
        {"lanemask_lt", "lane_mask_below()"},
        {"lanemask_le", "lane_mask_up_to()"},
        {"lanemask_gt", "lane_mask_above()"},
        {"lanemask_ge", "lane_mask_from()"},
        {"tid", "thread_index()"},
        {"ntid", "block_extent()"},
        {"ctaid", "block_index()"},
        {"nctaid", "grid_extent()"},
        {"cluster_ctarank", "cluster_rank()"},
        {"cluster_nctarank", "cluster_blocks()"},
        {"clock", "clock()"},
        {"clock64", "clock()"},
        {"globaltimer", "clock()"},
    };
    // By words and signs, whatever stands between them.
    std::string plain;
    for (const char c : instruction) {
      const bool is_space = c == ' ' || c == '\t' || c == '\n';
      if (is_space ? !plain.empty() && plain.back() != ' ' : c != ';') plain += is_space ? ' ' : c;
    }
    for (std::string_view end : {"\\n\\t", "\\n", "\\t", " "}) {
      while (plain.ends_with(end)) plain.erase(plain.size() - end.size());
    }
    if (const auto at = kStatements.find(plain); at != kStatements.end()) return {at->second};
    if (!plain.starts_with("mov.") || plain.size() < 8) return {};
    const size_t comma = plain.find(',');
    const size_t percent = plain.find('%', comma == std::string::npos ? plain.size() : comma);
    if (percent == std::string::npos || plain.substr(7, comma - 7) != " %0") return {};
    std::string name = plain.substr(plain.find_first_not_of('%', percent));
    std::string member;
    if (name.size() > 2 && name[name.size() - 2] == '.') {
      member = name.substr(name.size() - 2);
      name.erase(name.size() - 2);
    }
    const auto at = kRegisters.find(name);
    if (at == kRegisters.end()) return {};
    const bool is_vector = name.ends_with("tid") || name.ends_with("ctaid");
    if (is_vector != !member.empty()) return {};
    return {fmt::format("::ws::cuda_file::device::{}{}", at->second, member), true};
  }

  Row& row_;
  const Declared& declared_;
  const bool in_macro_;
  std::vector<Scope> scopes_;
  std::map<std::string_view, size_t> hidden_;  // names that are other variables, down to a depth
  std::set<std::string_view> outside_;         // __shared__ variables outside of functions
};

// ---- Files -------------------------------------------------------------------------------------

class Sources {
 public:
  explicit Sources(const std::vector<std::string>& folders) : folders_(folders) {}

  Rewritten rewrite(const fs::path& source) {
    read(source, source.string());
    for (const auto& source : sources_) declare_kernels(source.row, declared_);
    Rewritten result;
    for (Source& source_file : sources_) {
      result.files.push_back({source_file.path, source_file.name, text_of(source_file)});
    }
    result.suspects = std::move(suspects_);
    return result;
  }

 private:
  struct Source {
    fs::path path;
    std::string shown;  // in messages
    std::string name;
    Row row;
    std::map<size_t, size_t> includes;  // by the directive's number the source's
  };

  // The number of the source.
  size_t read(const fs::path& path, const std::string& shown) {
    const fs::path canonical = fs::weakly_canonical(path);
    const auto known = by_path_.find(canonical);
    if (known != by_path_.end()) return known->second;
    const size_t number = sources_.size();
    by_path_[canonical] = number;
    texts_.push_back(std::make_unique<std::string>(read_file(path)));
    sources_.push_back({path,
                        shown,
                        fmt::format("{}_{}.cpp", number, path.stem().string()),
                        Row(tokens_of(*texts_.back())),
                        {}});
    find_includes(number);
    return number;
  }

  void find_includes(size_t number) {
    for (size_t i = 0; i < sources_[number].row.size(); ++i) {
      const Token token = sources_[number].row[i];
      if (token.kind == TokenKind::kWord) {
        const std::string_view why = unsupported(token.text);
        if (!why.empty()) {
          suspects_.push_back({sources_[number].shown, token.line, std::string(why)});
        }
      }
      if (token.kind != TokenKind::kDirective) continue;
      const auto [header, is_quoted] = header_of(token.text);
      if (header.empty()) continue;
      if (!is_quoted) continue;
      const fs::path folder = sources_[number].path.parent_path();
      for (const fs::path& in : folders_of(folder)) {
        const fs::path path = in / header;
        if (!fs::is_regular_file(path)) continue;
        const fs::path shown =
            in == folder ? fs::path(sources_[number].shown).parent_path() / header : path;
        sources_[number].includes[i] = read(path, shown.lexically_normal().string());
        break;
      }
    }
  }

  std::vector<fs::path> folders_of(const fs::path& own) const {
    std::vector<fs::path> all{own};
    all.insert(all.end(), folders_.begin(), folders_.end());
    return all;
  }

  // Of #include its header.
  static std::pair<std::string, bool> header_of(std::string_view directive) {
    const size_t word = directive.find_first_not_of(" \t", 1);
    if (word == std::string_view::npos || !directive.substr(word).starts_with("include")) return {};
    const size_t open = directive.find_first_of("\"<", word);
    if (open == std::string_view::npos) return {};
    const size_t close = directive.find(directive[open] == '<' ? '>' : '"', open + 1);
    if (close == std::string_view::npos) return {};
    return {std::string(directive.substr(open + 1, close - open - 1)), directive[open] == '"'};
  }

  std::string text_of(Source& source) {
    Row& row = source.row;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].kind != TokenKind::kDirective) continue;
      if (const std::string_view library = library_of(header_of(row[i].text).first);
          !library.empty() && !source.includes.contains(i)) {
        row.out(i) = fmt::format("#error not supported: {}", library);
        continue;
      }
      if (const auto at = source.includes.find(i); at != source.includes.end()) {
        row.out(i) = fmt::format("#include {}", literal(sources_[at->second].name));
        continue;
      }
      const size_t body_at = body_of_macro(row[i].text);
      if (body_at == 0) continue;
      Row body(tokens_of(row[i].text.substr(body_at), row[i].line, true));
      if (body.size() == 0) continue;
      Rewriter(body, declared_, true).rewrite();
      row.out(i) = std::string(row[i].text.substr(0, body_at)) + body.joined();
    }
    Rewriter(row, declared_, false).rewrite();
    const bool is_first = &source == &sources_.front();
    return fmt::format("{}#line 1 {}\n{}\n",
                       is_first ? "#include <warpsmith_cuda/first.hpp>\n" : "",
                       literal(source.shown), row.joined());
  }

  const std::vector<std::string>& folders_;
  std::vector<std::unique_ptr<std::string>> texts_;  // which tokens point into
  std::deque<Source> sources_;
  std::map<fs::path, size_t> by_path_;
  Declared declared_;
  std::vector<Suspect> suspects_;
};

}  // namespace

Rewritten rewrite(const fs::path& source, const std::vector<std::string>& folders) {
  return Sources(folders).rewrite(source);
}

}  // namespace ws::cuda_file
