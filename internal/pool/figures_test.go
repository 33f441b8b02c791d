package pool

import (
	"io/fs"
	"regexp"
	"slices"
	"testing"
)

// The names of the counters in the scripts are exactly the fields of Figures.
func TestScriptsCountEveryFigure(t *testing.T) {
	files, err := fs.Glob(sources, "lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	tables := regexp.MustCompile(`(?:add_figures\((?:KEYS\.)?stats, |local figures = )\{([^}]*)\}`)
	name := regexp.MustCompile(`(\w+) = `)
	var counted []string
	for _, file := range files {
		text, err := fs.ReadFile(sources, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range tables.FindAllStringSubmatch(string(text), -1) {
			for _, found := range name.FindAllStringSubmatch(table[1], -1) {
				if _, known := counters[found[1]]; !known && found[1] != "folds" { // a field of the row of all guests
					t.Errorf("%s counts %s, which Figures does not have", file, found[1])
				}
				counted = append(counted, found[1])
			}
		}
	}
	for counter := range counters {
		if !slices.Contains(counted, counter) {
			t.Errorf("no script counts %s", counter)
		}
	}
}
