package httpapi

import (
	"strings"
	"testing"

	"poold/internal/testkit"
)

// TestRefusalsOfClientsAreExplained: the log has one line about each refusal, with the caller and the reason. A
// repeated refusal is not logged again immediately. The reply has the reason in the field that clients show, short
// enough for these clients. A reply in plain text contains only the code.
func TestRefusalsOfClientsAreExplained(t *testing.T) {
	const refused = "client's call refused; correct the call, the key or the target"
	d := start(t, sampleSet(allKeys()...), nil, nil)
	named := strings.NewReplacer("{all}", keyAll, "{staging}", keyStaging, "{status}", keyStatus,
		"{sitekey}", d.target("checkout").Identity.Sitekey)
	known := 0
	eachCase(t, "refusals.txt", func(path, want string) {
		code, reason, _ := strings.Cut(want, " ")
		testkit.Equal(t, path, d.callInPHP(t, named.Replace(path)), code)
		reply := parseAnswer[map[string]any](t, d.ask(t, "GET", named.Replace(path)+"&json=1"))
		text, _ := reply["error_text"].(string)
		if reply["request"] != code || !strings.Contains(text, reason) || len(text) > 200 {
			t.Errorf("%s: %v, want %s", path, reply, want)
		}
		known++
		testkit.Equal(t, path+": lines", d.logged.Count(refused), known)
		testkit.Equal(t, path+": lines about it",
			d.logged.Count(refused, reason, `"level":"WARN"`, `"code":"`+code+`"`, `"key":"`, `"route":"/`), 1)
	})
	d.callInPHP(t, "/res.php?action=get&key=canary-key-wrong")
	d.callInPHP(t, "/res.php?action=get&id=x")
	testkit.Equal(t, "lines, with callers without a key", d.logged.Count(refused), known)
	reply := d.callCreateTask(t, "/createTask", createTaskSubmit(keyAll, "elsewhere", ""))
	if text, _ := reply["errorDescription"].(string); !strings.Contains(text, "first difference: pageurl") ||
		len(text) > 200 {
		t.Errorf("%v", reply)
	}
}
