package targets

import "strings"

// Nearest returns the known word whose spelling is most similar to the word, or "" if no known word
// is similar. If the word is a prefix of several known words, Nearest returns the first of these.
// The cost is bounded even for a very long word.
func Nearest(word string, known []string) string {
	same := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	word = same(word)
	best, bestDistance := "", max(1, min(2, len(word)/3))+1
	for _, candidate := range known {
		other := same(candidate)
		if len(word) >= 4 && strings.HasPrefix(other, word) {
			return candidate
		}
		if longer := len(other) - len(word); max(longer, -longer) >= bestDistance {
			continue // the distance is at least the difference of the lengths
		}
		if d := distance(word, other); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance returns the minimum number of edits that turn a into b. An edit adds, removes or changes
// a letter, or swaps two neighbouring letters.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
