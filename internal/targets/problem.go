package targets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxProblems is the maximum number of reported problems of one file, in the log and in the
// response to POST /-/reload.
const maxProblems = 200

// maxQuoted is the maximum number of bytes of a value or key that a message quotes.
const maxQuoted = 60

// Problem is one fault or one unusual setting in the file.
type Problem struct {
	File string // the path that the operator gave; "" for the body of a request
	Line int    // the line of the problem; 0 = no line, for example in a request or an unreadable file
	Text string // "key path: rule and remedy"; contains no secret and no value of the environment

	demo bool // whether this warning only explains why Set.Demo is true
}

// String formats the problem as "FILE:LINE: text". It omits unknown parts.
func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems is the list of all faults of a file, sorted by line.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems sorted by line, at most maxProblems of them. Problems of the same
// line keep the order of detection, so that the same file always gives the same text.
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

// Status describes the last attempt to read the file.
type Status struct {
	LoadedAt time.Time // time at which the Set in use was read; zero before the first Set
	OK       bool      // whether the last attempt found a valid file
	Problems []Problem // problems of the last attempt; if OK is true, the changes that need a restart
}

// NewWarnings returns the warnings of s that the previous Set lacks; the previous Set may be nil.
// If s is a demo, NewWarnings omits the warnings that only explain why s is a demo.
func (s *Set) NewWarnings(old *Set) (all []Problem) {
	for _, w := range s.Warnings {
		known := old != nil && slices.ContainsFunc(old.Warnings, func(o Problem) bool { return o.Text == w.Text })
		if !known && (!w.demo || !s.Demo()) {
			all = append(all, w)
		}
	}
	return all
}

// quote shortens and quotes a literal value of the file. It escapes control characters, because
// they could control the terminal of the operator.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(s[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(s)
}

// pathPart returns a key as a part of a path of keys. It quotes a key that contains punctuation.
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

// orList formats words as a text such as "a", "a or b" or "a, b or c".
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
