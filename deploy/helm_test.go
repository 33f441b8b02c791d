//go:build !race

package deploy_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"

	"poold/internal/testkit"
)

// With its default values, the chart has the objects of kubernetes.yaml.
func TestChartIsTheManifest(t *testing.T) {
	release := func(values map[string]any) map[string]any {
		return map[string]any{"Release": map[string]any{"Name": "poold"}, "Values": values}
	}
	var values map[string]any
	testkit.NoError(t, yaml.Unmarshal([]byte(read(t, "helm/values.yaml")), &values))
	objects := objectsOf(t, rendered(t, release(values)))
	for kind, want := range objectsOf(t, read(t, "kubernetes.yaml")) {
		testkit.DeepEqual(t, "the chart's "+kind, objects[kind], want)
	}
	values["existingSecret"], values["image"] = "mine", "registry.example.com/poold:1"
	text := rendered(t, release(values))
	for _, want := range []string{"secretName: mine,", `image: "registry.example.com/poold:1"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
	if more := objectsOf(t, text); len(more) != len(objects)-1 || more["Secret"] != nil {
		t.Errorf("with a Secret that exists, the chart has %d objects, want %d", len(more), len(objects)-1)
	}
}

func rendered(t *testing.T, with map[string]any) string {
	t.Helper()
	chart, err := template.New("").Funcs(template.FuncMap{
		"quote": strconv.Quote,
		"toJson": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"default": func(other, value string) string {
			if value == "" {
				return other
			}
			return value
		},
	}).Parse(read(t, "helm/templates/poold.yaml"))
	testkit.NoError(t, err)
	var text strings.Builder
	testkit.NoError(t, chart.Execute(&text, with))
	return text.String()
}

// objectsOf returns the objects of a manifest by their kinds.
func objectsOf(t *testing.T, text string) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for part := range strings.SplitSeq(text, "---\n") {
		var object map[string]any
		testkit.NoError(t, yaml.Unmarshal([]byte(part), &object))
		objects[object["kind"].(string)] = object
	}
	return objects
}
