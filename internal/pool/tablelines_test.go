package pool

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	lines = flag.String("lines", "",
		"delete each line of this script in turn, or of all, and list the lines that no table misses")
	mutant = flag.Int("mutant", -1, "delete this line of the scripts")
)

// equivalent lists the lines whose deletion has no visible effect, with the reason.
var equivalent = map[string]string{
	"if redis.call('EXISTS', KEYS[10], '@turn:' .. id) == 0 then return {'ok', now, ''} end": // nobody waits for one
	"there is nothing to delete then, and no turn to give",
}

// A scriptLine is a line with code of the head or of a script.
type scriptLine struct {
	script *script // nil = the head
	number int
	text   string
}

func scriptLines() (list []scriptLine) {
	add := func(s *script, text string) {
		for i, line := range strings.Split(text, "\n") {
			if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "--") {
				list = append(list, scriptLine{script: s, number: i, text: code})
			}
		}
	}
	add(nil, head)
	for _, s := range scripts {
		add(s, s.body)
	}
	return list
}

// mutate removes a line from the scripts of the pools that are made from now on.
func mutate(line scriptLine) {
	from := head
	if line.script != nil {
		from = line.script.body
	}
	all := strings.Split(from, "\n")
	all[line.number] = ""
	without := strings.Join(all, "\n")
	for _, s := range scripts {
		switch line.script {
		case nil:
			s.text = link(without, s.body)
		case s:
			s.text = link(head, without)
		}
	}
}

// TestEveryLineOfAScriptMatters deletes each line in turn: a table must differ then. It runs with -lines.
func TestEveryLineOfAScriptMatters(t *testing.T) {
	if *lines == "" {
		t.Skip("runs with -lines; all scripts take half an hour")
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, 2)
	missed := 0
	for i, line := range scriptLines() {
		if *lines != "all" && (line.script == nil || line.script.name != *lines) {
			continue
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // a loop may not end any more
			defer stop()
			command := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestTables$", "-mutant", fmt.Sprint(i))
			var output bytes.Buffer
			command.Stdout, command.Stderr = &output, &output
			err := command.Run()
			mu.Lock()
			defer mu.Unlock()
			reason, same := equivalent[line.text]
			name := "head"
			if line.script != nil {
				name = line.script.name
			}
			switch {
			case err == nil && !same:
				missed++
				t.Errorf("%s, line %d: no table misses %s", name, line.number, line.text)
			case err != nil && same:
				t.Errorf("%s, line %d: a table misses %s, but it counts as equivalent: %s", name, line.number, line.text, reason)
			}
		})
	}
	running.Wait()
	t.Logf("of %d lines a table misses all that were tried but %d; %d are equivalent", len(scriptLines()), missed,
		len(equivalent))
}
