package targets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxProblems limits the lines of a broken file in the log and in the answer of POST /-/reload.
const maxProblems = 200

// maxQuoted is how much of a literal value or key a message shows, in bytes.
const maxQuoted = 60

// Problem is one fault, or one unusual setting, in the file.
type Problem struct {
	File string // as the operator named it; "" for the body of a request
	Line int    // 0 for a request, for an unreadable file, and if the content is not the cause
	Text string // "key path: rule and remedy"; holds no secret and no environment value

	demo bool // a warning that only explains why Set.Demo is true
}

// String returns the problem as "FILE:LINE: text", without the parts that are unknown.
func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems are all faults of a file, sorted by line.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted orders by line and keeps the order of detection within a line, so that the same
// file always gives the same text.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int { return a.Line - b.Line })
	if len(ps) <= maxProblems {
		return ps
	}
	rest := len(ps) - maxProblems
	return append(ps[:maxProblems:maxProblems], Problem{
		File: ps[0].File, Line: ps[maxProblems].Line, Text: fmt.Sprintf("and %d more problems", rest),
	})
}

// Status is the outcome of the last attempt to read the file.
type Status struct {
	LoadedAt time.Time // when the Set in use was read; zero before the first
	OK       bool      // the last attempt found a valid file
	Problems []Problem // of the last attempt; with OK: changes that need a restart
}

// NewWarnings returns the warnings that old does not have; old may be nil. It leaves out
// the warnings that only explain why s is a demo.
func (s *Set) NewWarnings(old *Set) (all []Problem) {
	for _, w := range s.Warnings {
		known := old != nil && slices.ContainsFunc(old.Warnings, func(o Problem) bool { return o.Text == w.Text })
		if !known && (!w.demo || !s.Demo()) {
			all = append(all, w)
		}
	}
	return all
}

// quote shortens a literal of the file and escapes control characters, so that a file
// cannot control the terminal of the operator.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(s[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(s)
}

// pathPart returns a key as one part of a path. It quotes a key with punctuation.
func pathPart(key string) string {
	plain := key != "" && len(key) <= maxQuoted && strings.IndexFunc(key, func(c rune) bool {
		return !isWord(c) && c != '.' && c != '-'
	}) < 0
	if plain {
		return key
	}
	return quote(key)
}

// isWord reports whether c is one of a-z, A-Z, 0-9 and _.
func isWord(c rune) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// orList joins words: "a", "a or b", "a, b or c".
func orList[T ~string](words []T) string {
	list := string(words[0])
	for i, word := range words[1:] {
		separator := ", "
		if i == len(words)-2 {
			separator = " or "
		}
		list += separator + string(word)
	}
	return list
}
