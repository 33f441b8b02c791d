package redisdb

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// probe is the script that checks whether a part of Redis accepts writes.
var probe = LoadScripts(sources, nil).Get("probe")

// A Script is one atomic step in Redis: the file lua/NAME.lua of a package. The text of a script
// consists of lua/general.lua of package redisdb, lua/common.lua of the script's package if it
// exists, the shared files that the header lists under Uses, and the file itself. The header
// describes the purpose of the script. The header declares the keys, the arguments, groups of
// repeated arguments, the fields of a reply in braces, and the errors. A name that ends in _ms is a
// duration in ms.
//
//	-- Places an order for each caller.
//	--
//	-- Uses    journal attempts
//	-- KEYS    orders journal, then one for each caller
//	-- ARGV    order lease_ms, then each WAITER;
//	--         order: its ID; the explanations follow a semicolon, one in each line
//	-- WAITER  ticket arrival
//	-- Reply   {placed wait_ms}, or 0 if the order is gone
//	-- Errors  OOM before any change
//
// LoadScripts replaces the names in the text by numbers, so that the names cost Redis nothing. In
// this example, KEYS.journal becomes KEYS[2], ARGV.order becomes ARGV[1], and WAITER.arrival becomes
// 2. KEYS.size becomes 2, the number of names. A shared file uses the names of the script that
// includes it. To add a script, add its file and call the script by the name of the file.
type Script struct {
	*redis.Script
	Text string

	name   string
	header header
	fields map[string]int // positions of the reply's fields by name

	keyFields atomic.Pointer[keyFields] // cache of fieldsIn
}

// Scripts contains the scripts of a package, by the names of their files.
type Scripts map[string]*Script

// sharedFile is the start of a file that scripts include.
const sharedFile = "-- Shared: "

var (
	headerText  = regexp.MustCompile(`\A(?:--.*\n)*`)
	headerList  = regexp.MustCompile(`(?m)^-- (?:(Uses|[A-Z]{2,}) +|(Reply) +\{)([a-z0-9_]+(?:(?: |\n-- {3,})[a-z0-9_]+)*)`)
	headerBreak = regexp.MustCompile(`\n-- +`)
	scriptName  = regexp.MustCompile(`\b[A-Z]+\.[a-z0-9_]+\b`)
	bareNumber  = regexp.MustCompile(`\b(KEYS|ARGV)\[\d+\]`)
)

// LoadScripts loads every file in lua/ that is not shared. A script may also use the names in the
// argument constants (a map), such as LIMIT.endings. LoadScripts panics if a file is missing, uses
// a number or an undeclared name for a key or an argument, or does not use a name that it declares.
func LoadScripts(files fs.FS, constants map[string]string) Scripts {
	entries, err := fs.ReadDir(files, "lua")
	if err != nil {
		panic("redisdb: no scripts in the binary: " + err.Error())
	}
	all := Scripts{}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".lua")
		if text := source(files, name); !strings.HasPrefix(text, sharedFile) {
			all[name] = newScript(files, name, constants)
		}
	}
	return all
}

// Get returns the script of a file. Get panics if the file does not exist.
func (s Scripts) Get(name string) *Script {
	script := s[name]
	if script == nil {
		panic("redisdb: no script " + name + ".lua")
	}
	return script
}

// newScript loads the script of one file.
func newScript(files fs.FS, name string, constants map[string]string) *Script {
	h := headerOf(source(files, name))
	parts := h["Uses"]
	if _, err := fs.Stat(files, "lua/common.lua"); !errors.Is(err, fs.ErrNotExist) {
		parts = append([]string{"common"}, parts...)
	}
	names := h.names()
	for constant, value := range constants {
		names[constant] = value
	}
	used := map[string]bool{}
	text := resolveNames("general", source(sources, "general"), names, used)
	for _, part := range append(parts, name) {
		text += "\n" + resolveNames(part, source(files, part), names, used)
	}
	for declared := range names {
		if _, constant := constants[declared]; !constant && !used[declared] && !strings.HasSuffix(declared, ".size") {
			panic("redisdb: the header of " + name + ".lua declares " + declared + ", which is not used")
		}
	}
	s := &Script{Script: redis.NewScript(text), Text: text, name: name, header: h, fields: map[string]int{}}
	for i, field := range s.Names("Reply") {
		s.fields[field] = i
	}
	return s
}

// Names returns the names that follow a label of the header, such as KEYS.
func (s *Script) Names(label string) []string { return s.header[label] }

// A header maps each label in the comment at the start of a script to the names after the label.
type header map[string][]string

func headerOf(text string) header {
	h := header{}
	for _, found := range headerList.FindAllStringSubmatch(headerText.FindString(text), -1) {
		h[found[1]+found[2]] = strings.Fields(headerBreak.ReplaceAllString(found[3], " "))
	}
	return h
}

// names maps the names of keys, arguments and groups to their replacements.
func (h header) names() map[string]string {
	numbers := map[string]string{}
	for label, names := range h {
		form := "%d"
		switch label {
		case "Uses", "Reply":
			continue
		case "KEYS", "ARGV":
			form = label + "[%d]"
		}
		for i, name := range names {
			if numbers[label+"."+name] != "" {
				panic("redisdb: a header declares " + label + "." + name + " twice")
			}
			numbers[label+"."+name] = fmt.Sprintf(form, i+1)
		}
		numbers[label+".size"] = strconv.Itoa(len(names))
	}
	return numbers
}

// resolveNames replaces the names in the text of a file. resolveNames adds the names that it finds
// to the argument used.
func resolveNames(file, text string, names map[string]string, used map[string]bool) string {
	if bare := bareNumber.FindString(text); bare != "" {
		panic("redisdb: " + file + ".lua uses " + bare + " instead of a name")
	}
	return scriptName.ReplaceAllStringFunc(text, func(name string) string {
		value, declared := names[name]
		if !declared {
			panic("redisdb: " + file + ".lua uses a name that no header declares: " + name)
		}
		used[name] = true
		return value
	})
}

// source reads the file lua/NAME.lua. source panics if the file is missing from the binary.
func source(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, "lua/"+name+".lua")
	if err != nil {
		panic("redisdb: script missing from the binary: " + name)
	}
	return string(text)
}
