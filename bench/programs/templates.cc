// SPDX-License-Identifier: Apache-2.0
// Many instances of many templates: debug information for bench/symbols. UNIT, FUNCTION and COUNT come
// from the command line.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace UNIT
{
template <int N> struct Key {
	int number;
	std::string text;

	bool operator<(const Key &other) const
	{
		return std::tie(number, text) < std::tie(other.number, other.text);
	}
	bool operator==(const Key &other) const
	{
		return number == other.number && text == other.text;
	}
};

template <int N> struct Hash {
	size_t operator()(const Key<N> &key) const
	{
		return std::hash<std::string>()(key.text) + N + key.number;
	}
};

template <class Keys, class Function> long sum(const Keys &keys, Function function)
{
	long total = 0;
	for (auto &key : keys)
		total += function(key);
	return total;
}

template <int N> struct Box {
	std::map<Key<N>, std::vector<std::shared_ptr<Key<N>>>> sorted;
	std::unordered_map<Key<N>, std::set<Key<N>>, Hash<N>> hashed;
	std::vector<std::variant<int, std::string, Key<N>, std::tuple<Key<N>, int>>> mixed;
	long total = 0;

	void fill(int count)
	{
		for (int i = 0; i < count; i++) {
			Key<N> key{i, std::to_string(i * N)};
			sorted[key].push_back(std::make_shared<Key<N>>(key));
			hashed[key].insert(key);
			mixed.emplace_back(key);
			mixed.emplace_back(i);
			mixed.emplace_back(key.text);
			mixed.emplace_back(std::make_tuple(key, i));
		}
		std::vector<Key<N>> keys;
		for (auto &pair : sorted)
			keys.push_back(pair.first);
		std::sort(keys.begin(), keys.end(), [](auto &a, auto &b) { return b < a; });
		std::stable_sort(keys.begin(), keys.end());
		std::function<int(const Key<N> &)> size = [&](const Key<N> &key) {
			return (int)hashed[key].size() + key.number;
		};
		total += sum(keys, size);
	}
};

template <int N> long one(int count)
{
	Box<N> box;
	box.fill(count);
	return box.total;
}

template <int... N> long all(int count, std::integer_sequence<int, N...>)
{
	long total = 0;
	((total += one<N + 1>(count)), ...);
	return total;
}
}

long FUNCTION(int count)
{
	return UNIT::all(count, std::make_integer_sequence<int, COUNT>{});
}

#ifdef WITH_MAIN
int main(int argc, char **)
{
	return FUNCTION(argc) == 42;
}
#endif
