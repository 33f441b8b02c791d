package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// mayImport is the import table: the packages of this module that each package may import.
var mayImport = map[string][]string{
	"cmd/poold": {"internal/backend", "internal/backoff", "internal/captcha", "internal/check", "internal/claims",
		"internal/cli", "internal/compat", "internal/events", "internal/history", "internal/history/pgstore",
		"internal/history/redisstore", "internal/httpapi", "internal/listener", "internal/notify", "internal/pool",
		"internal/pool/tokenid", "internal/provider", "internal/provider/simulated", "internal/purchase",
		"internal/purchase/signature", "internal/redisdb", "internal/refill", "internal/replicas", "internal/simulate",
		"internal/solve", "internal/status", "internal/systemd", "internal/targets", "internal/targets/reload"},
	"clients/go": {},
	"deploy":     {},
	"internal/backend": {"internal/captcha", "internal/history/dynamostore", "internal/postgres", "internal/redisdb",
		"internal/targets"},
	"internal/backoff": {},
	"internal/captcha": {},
	"internal/check": {"internal/backend", "internal/captcha", "internal/cli", "internal/history/dynamostore",
		"internal/postgres", "internal/provider", "internal/redisdb", "internal/targets", "internal/targets/reload"},
	"internal/claims":     {"internal/backoff", "internal/captcha", "internal/postgres", "internal/redisdb"},
	"internal/cli":        {"internal/captcha", "internal/status", "internal/targets"},
	"internal/compat":     {"internal/captcha", "internal/crash", "internal/pool", "internal/provider/wire", "internal/solve"},
	"internal/crash":      {},
	"internal/daemontest": {"internal/httpapi/openapi/openapitest", "internal/provider/simulatedtest", "internal/testkit"},
	"internal/events":     {"internal/backoff", "internal/redisdb"},
	"internal/history": {"internal/backoff", "internal/captcha", "internal/panics", "internal/pool",
		"internal/purchase", "internal/redisdb"},
	"internal/history/dynamostore": {"internal/backoff", "internal/history", "internal/targets"},
	"internal/history/dynamotest":  {"internal/testkit"},
	"internal/history/historytest": {"internal/captcha", "internal/history"},
	"internal/history/pgstore":     {"internal/history", "internal/postgres"},
	"internal/history/redisstore":  {"internal/history", "internal/redisdb"},
	"internal/httpapi": {"internal/backoff", "internal/captcha", "internal/compat", "internal/events", "internal/history",
		"internal/httpapi/openapi", "internal/httpapi/page", "internal/listener", "internal/pool", "internal/pool/tokenid",
		"internal/provider", "internal/provider/wire", "internal/purchase", "internal/redisdb", "internal/refill", "internal/solve",
		"internal/spool", "internal/status", "internal/strictjson", "internal/targets"},
	"internal/httpapi/browsertest":         {},
	"internal/httpapi/openapi":             {},
	"internal/httpapi/openapi/openapitest": {"internal/httpapi/openapi"},
	"internal/httpapi/page":                {"internal/events", "internal/refill", "internal/status", "internal/targets"},
	"internal/listener":                    {},
	"internal/notify":                      {"internal/backoff", "internal/events", "internal/redisdb", "internal/targets"},
	"internal/panics":                      {},
	"internal/pool":                        {"internal/backoff", "internal/captcha", "internal/redisdb"},
	"internal/pool/tokenid":                {"internal/redisdb"},
	"internal/postgres":                    {"internal/backoff"},
	"internal/postgres/postgrestest":       {"internal/testkit"},
	"internal/provider": {"internal/backoff", "internal/captcha", "internal/provider/wire",
		"internal/strictjson", "internal/targets"},
	"internal/provider/simulated":     {"internal/captcha", "internal/provider/wire"},
	"internal/provider/simulatedtest": {"internal/captcha", "internal/provider/simulated", "internal/provider/wire"},
	"internal/provider/wire":          {"internal/captcha", "internal/strictjson"},
	"internal/purchase": {"internal/backoff", "internal/captcha", "internal/crash", "internal/panics", "internal/pool",
		"internal/provider", "internal/purchase/signature", "internal/redisdb", "internal/refill/choice", "internal/spool"},
	"internal/purchase/signature": {"internal/captcha"},
	"internal/redisdb":            {},
	"internal/redisdb/redistest":  {"internal/testkit"},
	"internal/refill": {"internal/backoff", "internal/captcha", "internal/panics", "internal/pool", "internal/purchase",
		"internal/refill/policy", "internal/targets"},
	"internal/refill/policy": {},
	"internal/refill/choice": {"internal/captcha", "internal/pool"},
	"internal/replicas":      {},
	"internal/simulate": {"internal/captcha", "internal/cli", "internal/history", "internal/provider", "internal/refill",
		"internal/refill/policy", "internal/targets", "internal/targets/reload"},
	"internal/solve": {"internal/backoff", "internal/captcha", "internal/claims", "internal/panics", "internal/pool",
		"internal/purchase", "internal/redisdb"},
	"internal/solve/solvetest": {"internal/captcha", "internal/claims", "internal/pool", "internal/redisdb",
		"internal/redisdb/redistest", "internal/solve"},
	"internal/spool": {"internal/captcha"},
	"internal/status": {"internal/captcha", "internal/history", "internal/panics", "internal/pool",
		"internal/provider", "internal/purchase", "internal/redisdb", "internal/refill", "internal/refill/choice",
		"internal/refill/policy", "internal/replicas", "internal/strictjson", "internal/targets"},
	"internal/strictjson":     {},
	"internal/systemd":        {},
	"internal/targets":        {"internal/captcha", "internal/strictjson"},
	"internal/targets/reload": {"internal/targets"},
	"internal/testkit":        {},
	"scripts/provider":        {"internal/provider/simulatedtest"},
	"scripts/page":            {"internal/httpapi/browsertest"},
}

// livesIn lists the packages that may import an external library.
var livesIn = map[string][]string{
	"gopkg.in/yaml.v3":                         {"internal/targets", "internal/simulate", "internal/httpapi/openapi/openapitest"},
	"github.com/go-json-experiment/json":       {"internal/strictjson"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"internal/httpapi/openapi/openapitest"},
	"github.com/agnivade/levenshtein":          {"internal/targets"},
	"github.com/robfig/cron/v3":                {"internal/targets"},
	"golang.org/x/time":                        {"internal/httpapi"},
	"go.uber.org/goleak":                       {"internal/redisdb/redistest"},
	"github.com/redis/go-redis/v9": {"internal/targets", "internal/redisdb", "internal/redisdb/redistest",
		"internal/solve/solvetest", "internal/events", "internal/pool", "internal/pool/tokenid",
		"internal/history/redisstore", "internal/check", "cmd/poold"},
	"github.com/chromedp": {"internal/httpapi/browsertest"},
	"golang.org/x/sync": {"internal/pool", "internal/purchase", "internal/solve", "internal/refill",
		"internal/status", "internal/history/dynamostore", "internal/httpapi", "cmd/poold"},
	"github.com/labstack/echo/v4":         {"internal/httpapi", "internal/httpapi/page"},
	"github.com/munnerz/goautoneg":        {"internal/httpapi"},
	"github.com/prometheus/client_golang": {"internal/status", "internal/httpapi"},
	"github.com/spf13/cobra":              {"internal/cli", "internal/check", "internal/simulate", "cmd/poold"},
	"github.com/spf13/pflag":              {"internal/simulate"},
	"github.com/coreos/go-systemd/v22":    {"internal/systemd"},
	"github.com/alicebob/miniredis/v2":    {"cmd/poold", "internal/redisdb/redistest"},
	"github.com/jackc/pgx/v5":             {"internal/postgres"},
	"github.com/pressly/goose/v3":         {"internal/postgres"},
	"github.com/aws/aws-sdk-go-v2":        {"internal/history/dynamostore"},
	"github.com/aws/smithy-go":            {"internal/history/dynamostore"},
	"pgregory.net/rapid":                  {"internal/history/historytest"},
}

// Every import between packages of this module must be in the table.
func TestImportTable(t *testing.T) {
	// Test files are not listed, and packages that have nothing else are left out.
	list := exec.Command("go", "list", "-f", `{{if .GoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./...")
	list.Dir = root
	packages, err := list.Output()
	testkit.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(packages)) {
		imports := strings.Fields(line)
		dir := strings.TrimPrefix(imports[0], "poold/")
		allowed, known := mayImport[dir]
		if !known {
			t.Errorf("package %s is not in the import table", dir)
		}
		seen[dir] = true
		for _, name := range imports[1:] {
			checkImport(t, dir, name, allowed)
		}
	}
	for dir := range mayImport {
		if !seen[dir] {
			t.Errorf("the import table lists %s, which does not exist", dir)
		}
	}
}

func checkImport(t *testing.T, dir, name string, allowed []string) {
	t.Helper()
	if own, ours := strings.CutPrefix(name, "poold/"); ours {
		if !slices.Contains(allowed, own) {
			t.Errorf("%s may not import %s", dir, own)
		}
		return
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return // a package of the standard library
	}
	for library, homes := range livesIn {
		if name == library || strings.HasPrefix(name, library+"/") {
			if !slices.Contains(homes, dir) {
				t.Errorf("%s lives in %s, not in %s", library, strings.Join(homes, ", "), dir)
			}
			return
		}
	}
	t.Errorf("library %s of %s is not in the import table", name, dir)
}
