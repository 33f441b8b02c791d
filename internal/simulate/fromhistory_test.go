package simulate

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/cli"
	"poold/internal/testkit"
)

// The requests of a key come in pages, the newest first. Reports and returned tokens do not count as requests.
// Requests of another target count only without --target.
func TestFromHistory(t *testing.T) {
	var asked []string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("cursor"))
		row := func(at int, action, target string) string {
			return fmt.Sprintf(`{"at":"2026-01-02T03:04:%02d.500Z","action":%q,"target":%q}`, at, action, target)
		}
		switch {
		case r.URL.Path != "/history/key/nightly":
			_, _ = io.WriteString(w, `{"records":[]}`)
		case len(asked) == 1:
			_, _ = io.WriteString(w, `{"next":"older","records":[`+row(40, "accepted", "login")+","+row(30, "missed", "login")+
				","+row(29, "taken", "signup")+`]}`)
		default:
			_, _ = io.WriteString(w, `{"records":[`+row(12, "returned", "login")+","+row(12, "bought", "login")+","+
				row(10, "taken", "login")+`]}`)
		}
	}))
	defer daemon.Close()
	for target, want := range map[string][]float64{"login": {0, 2, 20}, "": {0, 2, 19, 20}, "none": nil} {
		asked = nil
		console := &cli.Console{Lookup: func(name string) (string, bool) { return daemon.URL, name == "POOLD_URL" }}
		client, err := cli.ClientFlags(new(cobra.Command), console)()
		testkit.NoError(t, err)
		got, first, err := fromHistory(t.Context(), client, "nightly", target, time.Hour)
		if want == nil {
			if err == nil || !strings.Contains(err.Error(), "no request of the key") {
				t.Errorf("without requests: %v", err)
			}
			continue
		}
		testkit.NoError(t, err)
		if !reflect.DeepEqual(got, want) || first.Format(time.RFC3339Nano) != "2026-01-02T03:04:10.5Z" ||
			!reflect.DeepEqual(asked, []string{"", "older"}) {
			t.Errorf("target %q: %v from %v, cursors %q", target, got, first, asked)
		}
	}
}

// The plot has a bar for each period with requests, and says how many found a token.
func TestPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.svg")
	printed, err := run(t.Context(),
		strings.Fields("--depth 5 --demand timer:60s --length 1h --json --plot "+file)...)
	testkit.NoError(t, err)
	var result struct{ Requests, Hits int }
	testkit.NoError(t, json.Unmarshal([]byte(printed), &result))
	picture, err := os.ReadFile(file)
	testkit.NoError(t, err)
	var plot struct {
		Bars []struct {
			Fill   string `xml:"fill,attr"`
			Height string `xml:"height,attr"`
		} `xml:"rect"`
		Texts []string `xml:"text"`
	}
	testkit.NoError(t, xml.Unmarshal(picture, &plot))
	green := 0
	for _, bar := range plot.Bars {
		if bar.Fill == "#393" && bar.Height != "0.0" {
			green++
		}
	}
	if title := fmt.Sprintf("%d requests", result.Requests); green != result.Hits || green < 50 ||
		!strings.HasPrefix(plot.Texts[0], title) {
		t.Errorf("%d green bars for %d hits of %d requests; %q", green, result.Hits, result.Requests, plot.Texts)
	}
}
