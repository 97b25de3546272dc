package options

import "strings"

// Nearest returns the name that was probably meant: the one that differs only
// by letter case or separators, else the one with the fewest edits, where they
// are few for its length. It returns "" when nothing is near.
func Nearest(word string, names []string) string {
	if word == "" {
		return ""
	}
	for _, n := range names {
		if strings.EqualFold(word, n) {
			return n
		}
	}
	for _, n := range names {
		if plain(word) == plain(n) {
			return n
		}
	}
	best, edits := "", 0
	for _, n := range names {
		d := distance(strings.ToLower(word), strings.ToLower(n))
		if d <= max(1, len([]rune(n))/3) && (best == "" || d < edits) {
			best, edits = n, d
		}
	}
	return best
}

// plain brings a name to its letters and digits, in lower case.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// distance is the number of single edits between two words; two neighbours
// exchanged are one edit, since that is how people mistype.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 200 || len(y) > 200 {
		return max(len(x), len(y))
	}
	before, last, row := []int(nil), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(y)+1)
	}
	return last[len(y)]
}
