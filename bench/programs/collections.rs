// SPDX-License-Identifier: Apache-2.0
// Collections and strings of the standard library.
use std::collections::{BTreeMap, HashMap, VecDeque};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn words(random: &mut Random, count: usize) -> Vec<String> {
    (0..count).map(|_| format!("word-{:x}", random.next() % 200_000)).collect()
}

fn index(words: &[String]) -> BTreeMap<String, Vec<usize>> {
    let mut map: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (position, word) in words.iter().enumerate() {
        map.entry(word.clone()).or_default().push(position);
    }
    map
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut recent: VecDeque<HashMap<String, Box<(u64, String)>>> = VecDeque::new();
    let mut total = 0usize;
    for round in 0..rounds {
        let text = words(&mut random, 200_000);
        let tree = index(&text);
        let longest = tree.values().map(Vec::len).max().unwrap_or(0);
        let table: HashMap<String, Box<(u64, String)>> = text
            .iter()
            .map(|word| (word.to_uppercase(), Box::new((random.next(), word.replace("word", "w")))))
            .collect();
        let joined = text.join(" ");
        let parts: Vec<String> = joined.split('-').map(str::to_owned).collect();
        total += longest + parts.len() + table.values().filter(|entry| entry.0 % 2 == 0).count();
        recent.push_back(table);
        if recent.len() > 3 {
            recent.pop_front();
        }
        if round % 16 == 15 {
            recent.clear();
        }
    }
    println!("{}", total + recent.len());
}
