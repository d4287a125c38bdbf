// SPDX-License-Identifier: Apache-2.0
// Food for a compiler: many instantiations of the standard library.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct key {
	std::string name;
	int rank = N;
	bool operator<(const key &other) const { return std::tie(rank, name) < std::tie(other.rank, other.name); }
	bool operator==(const key &other) const { return rank == other.rank && name == other.name; }
};

template <int N> struct key_hash {
	std::size_t operator()(const key<N> &k) const { return std::hash<std::string>()(k.name) ^ (k.rank * N); }
};

template <int N> int use_containers(const std::string &text)
{
	std::map<key<N>, std::vector<std::string>> tree;
	std::unordered_map<key<N>, std::shared_ptr<std::set<int>>, key_hash<N>> table;
	std::vector<std::variant<int, std::string, key<N>>> mixed;
	std::istringstream words(text);
	std::string word;

	while (words >> word) {
		key<N> k{word, static_cast<int>(word.size()) % N};
		tree[k].push_back(word);
		auto &numbers = table[k];
		if (!numbers)
			numbers = std::make_shared<std::set<int>>();
		numbers->insert(static_cast<int>(word.size()));
		mixed.emplace_back(k);
		mixed.emplace_back(word);
	}
	std::sort(mixed.begin(), mixed.end(), [](const auto &a, const auto &b) { return a.index() < b.index(); });
	std::function<int(int, const std::pair<const key<N>, std::vector<std::string>> &)> add =
		[](int sum, const auto &entry) { return sum + static_cast<int>(entry.second.size()) + entry.first.rank; };
	int sum = std::accumulate(tree.begin(), tree.end(), 0, add);
	for (const auto &value : mixed)
		sum += std::visit([](const auto &v) { return static_cast<int>(sizeof(v)) + N; }, value);
	return sum;
}

template <int... N> int use_all(const std::string &text, std::integer_sequence<int, N...>)
{
	return (use_containers<N + 1>(text) + ...);
}

int main(int argc, char **argv)
{
	std::string text = argc > 1 ? argv[1] : "";
	std::regex pattern("([a-z]+)-([0-9]+)");
	text = std::regex_replace(text, pattern, "$2 $1");
	return use_all(text, std::make_integer_sequence<int, INSTANCES>()) & 1;
}
