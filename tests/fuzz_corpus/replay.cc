// What stands in for libFuzzer among the tests: gives a fuzzer's function every file of its corpus,
// each also damaged in fixed ways, and inputs out of the air. The same ones every time.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kDamagedPerFile = 60;
constexpr int kFromTheAir = 300;
constexpr size_t kAirBytesMax = 2000;

void Give(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Bytes changed, left out, or doubled.
std::string Damaged(std::string input, std::mt19937& random) {
  for (uint32_t i = 0; i < 1 + random() % 4 && !input.empty(); ++i) {
    const size_t at = random() % input.size();
    const size_t length = 1 + random() % 8;
    switch (random() % 3) {
      case 0:
        input[at] = static_cast<char>(random());
        break;
      case 1:
        input.erase(at, length);
        break;
      default:
        input.insert(at, input.substr(at, length));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(1);
  int num_files = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      Give(input);
      for (int j = 0; j < kDamagedPerFile; ++j) Give(Damaged(input, random));
      ++num_files;
    }
  }
  for (int i = 0; i < kFromTheAir; ++i) {
    std::string input(random() % kAirBytesMax, '\0');
    for (char& byte : input) byte = static_cast<char>(random());
    Give(input);
  }
  std::printf("%d files of the corpus, %d inputs each; %d from the air\n", num_files,
              1 + kDamagedPerFile, kFromTheAir);
  return 0;
}
