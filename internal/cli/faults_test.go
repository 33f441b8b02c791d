package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/spf13/cobra"
)

// fullWriter is a writer that fails in the same way as a full disk.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func runTo(ctx context.Context, stdout, stderr io.Writer, command func(*Console) *cobra.Command, args ...string) error {
	root := command(&Console{Lookup: func(name string) (string, bool) { return "http://daemon", name == "POOLD_URL" }, Stdout: stdout, Stderr: stderr})
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

var program = Program{
	Version: "1", Serve: func(*Console) *cobra.Command { return &cobra.Command{Use: "serve"} },
	HistoryInit: func(*Console) *cobra.Command { return &cobra.Command{Use: "init"} },
}

// These functions return the commands that depend on a Program.
func history(c *Console) *cobra.Command { return newHistory(c, program.HistoryInit(c)) }
func version(c *Console) *cobra.Command { return newVersion(c, program) }
func man(c *Console) *cobra.Command     { return newMan(c, program) }

// A command that cannot print its result fails, so that a script does not continue with a partial
// result. The command does not repeat a request that changes something or takes a token.
func TestCommandsFailIfTheyCannotPrint(t *testing.T) {
	for _, c := range []struct {
		command func(*Console) *cobra.Command
		args    string
		changes int // requests other than GET
	}{
		{newToken, "login", 1}, {newSolve, "--type turnstile", 1}, {newReport, "login 1 accepted", 1}, {newReport, "1 accepted --json", 1},
		{newStatus, "", 0}, {newStatus, "--json", 0}, {newStatus, "login --json", 0}, {newStatus, "--watch", 0}, {newStatus, "--watch --json", 0},
		{newPause, "login", 1}, {newPause, "login --json", 1}, {newFlush, "login", 1}, {newReload, "", 1}, {newReload, "--json", 1},
		{newProbe, "acme", 1}, {newProbe, "acme --json", 1}, {newDeadLetters, "list", 0},
		{history, "active", 0}, {history, "active --json", 0}, {history, "active --csv", 0},
		{newSchema, "", 0}, {version, "", 0}, {newCompletion, "bash", 0}, {newCompletion, "zsh", 0}, {newCompletion, "fish", 0},
		{man, t.TempDir(), 0},
	} {
		changes := 0
		withTransport(t, func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				changes++
			}
			switch path := r.URL.Path; {
			case r.Header.Get("Accept") == "text/csv":
				page := answer(http.StatusOK, body("id\n1\n"))
				page.Header.Set("Content-Type", "text/csv")
				return page, nil
			case r.Method != http.MethodGet && !strings.HasSuffix(path, "/token") && path != "/solve" && !strings.HasSuffix(path, "/probe"):
				return answer(http.StatusNoContent, http.NoBody), nil
			}
			return answer(http.StatusOK, body("{}")), nil
		})
		if err := runTo(t.Context(), fullWriter{}, io.Discard, c.command, strings.Fields(c.args)...); !errors.Is(err, syscall.ENOSPC) || changes != c.changes {
			t.Errorf("%s %s: %v after %d changes", c.command(&Console{Lookup: os.LookupEnv}).Name(), c.args, err, changes)
		}
	}
}

// The cursor of the next page goes to stderr. If the cursor cannot be printed, the page is not
// printed either, because a script would mistake the page for the last one.
func TestPageWithoutItsCursorIsNotPrinted(t *testing.T) {
	withTransport(t, func(*http.Request) (*http.Response, error) {
		page := answer(http.StatusOK, body("id\n1\n"))
		page.Header.Set("Link", `<?cursor=abc>; rel="next"`)
		return page, nil
	})
	var out strings.Builder
	if err := runTo(t.Context(), &out, fullWriter{}, history, "active", "--csv"); !errors.Is(err, syscall.ENOSPC) || out.String() != "" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// If a request cannot be built or sent, or its response cannot be read, the error names the failed
// step, and the command prints nothing.
func TestBrokenAnswersAreReported(t *testing.T) {
	cut := errors.New("cut")
	for name, c := range map[string]struct {
		status int // 0 = no answer
		says   string
	}{
		"no answer":     {0, "asking the daemon: "},
		"a cut token":   {http.StatusOK, "reading the daemon's answer: cut"},
		"a cut refusal": {http.StatusServiceUnavailable, "reading the daemon's answer: cut"},
	} {
		withTransport(t, func(*http.Request) (*http.Response, error) {
			if c.status == 0 {
				return nil, cut
			}
			return answer(c.status, io.NopCloser(io.MultiReader(strings.NewReader("0.abc"), iotest.ErrReader(cut)))), nil
		})
		if printed, err := runOn(t.Context(), newToken, "login"); !errors.Is(err, cut) || !strings.HasPrefix(err.Error(), c.says) || printed != "" {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
	}
	var bad *url.Error
	if _, err := (&Client{base: "http://daemon\x7f"}).Ask(t.Context(), http.MethodGet, "/readyz", "", 1); !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "asking the daemon: ") {
		t.Errorf("a bad address: %v", err)
	}
}

// A number that JSON cannot represent is a usage error. Nothing is solved.
func TestSolveRefusesANumberThatIsNotFinite(t *testing.T) {
	asked := false
	withTransport(t, func(*http.Request) (*http.Response, error) { asked = true; return nil, io.EOF })
	for _, number := range []string{"NaN", "Inf", "-Inf"} {
		var usage UsageError
		if _, err := runOn(t.Context(), newSolve, "--type", "recaptcha_v3", "--min-score", number); !errors.As(err, &usage) || asked {
			t.Errorf("%s: %v, asked %v", number, err, asked)
		}
	}
	var number *json.UnsupportedValueError
	if err := (&Console{Stdout: fullWriter{}}).printJSON(math.NaN()); !errors.As(err, &number) {
		t.Errorf("printing it: %v", err)
	}
}

// If the daemon's address is invalid, shell completion offers no target names and no file names.
func TestCompletionWithoutAnAddressHasNoNames(t *testing.T) {
	withTransport(t, func(*http.Request) (*http.Response, error) { t.Error("asked"); return nil, io.EOF })
	command := newToken(&Console{Lookup: func(string) (string, bool) { return "", false }})
	if err := command.ParseFlags([]string{"--url", "ftp://daemon"}); err != nil {
		t.Fatal(err)
	}
	command.SetContext(t.Context())
	if names, files := command.ValidArgsFunction(command, nil, ""); len(names) != 0 || files != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("%q, %v", names, files)
	}
}

// It is a programming error to set the completion of a flag that the command does not have.
func TestCompletionOfAMissingFlagPanics(t *testing.T) {
	for name, add := range map[string]func(*cobra.Command){
		"FilesFor": func(c *cobra.Command) { FilesFor(c, "none") },
		"OneOf":    func(c *cobra.Command) { OneOf(c, "none", "a", "b") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			add(&cobra.Command{Use: "x"})
		}()
	}
}

// If a man page cannot be written, the error contains the name of its file.
func TestManReportsAPageThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "poold.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	printed, err := runOn(t.Context(), man, dir)
	if !errors.Is(err, syscall.EISDIR) || !strings.HasPrefix(err.Error(), "writing the man pages: ") || !strings.Contains(err.Error(), "poold.1") || printed != "" {
		t.Errorf("%v\n%s", err, printed)
	}
}

// `poold status --watch` ends if it cannot report an outage of the daemon.
func TestWatchEndsIfItCannotReportAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		withTransport(t, func(r *http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return answer(http.StatusOK, body(`{"as_of":"a"}`)), nil
			}
			return nil, io.EOF
		})
		var out strings.Builder
		err := runTo(t.Context(), &out, fullWriter{}, newStatus, "--watch")
		if !errors.Is(err, syscall.ENOSPC) || asked != 2 || !strings.Contains(out.String(), "as of a") {
			t.Errorf("%v after %d requests\n%s", err, asked, out.String())
		}
	})
}
