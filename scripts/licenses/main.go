// Command licenses prints the licenses of all modules that are linked into the binaries of a release,
// and of Go itself. It fails if a module has no license file.
//
//	go run ./scripts/licenses linux/amd64 linux/arm64 darwin/arm64
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	text, err := collect(os.Args[1:])
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// module is a module that is linked into a binary, with the folders of its linked packages.
type module struct {
	path, version, root string
	folders             []string
}

// collect returns the licenses for the given platforms, such as linux/amd64.
func collect(platforms []string) (string, error) {
	if len(platforms) == 0 {
		return "", errors.New("name the platforms, such as linux/amd64")
	}
	linked := map[string]*module{}
	for _, platform := range platforms {
		if err := addLinked(linked, platform); err != nil {
			return "", err
		}
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output() //nolint:noctx // ends by itself
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	linked["Go"] = &module{path: "Go", version: runtime.Version(), root: strings.TrimSpace(string(goroot))}
	modules := slices.SortedFunc(maps.Values(linked), func(a, b *module) int { return strings.Compare(a.path, b.path) })
	var text strings.Builder
	text.WriteString("The poold binary contains these modules:\n\n")
	for _, m := range modules {
		text.WriteString("  " + m.path + " " + m.version + "\n")
	}
	for _, m := range modules {
		files, err := m.licenses()
		if err != nil {
			return "", err
		}
		text.WriteString(files)
	}
	return text.String(), nil
}

// addLinked adds the modules of the packages that the linker uses for one platform.
func addLinked(linked map[string]*module, platform string) error {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("%q is not a platform such as linux/amd64", platform)
	}
	command := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./cmd/poold") //nolint:noctx // ends by itself
	command.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("go list for %s: %w", platform, err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list for %s: %w", platform, err)
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := linked[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version, root: p.Module.Dir}
			linked[m.path] = m
		}
		m.folders = append(m.folders, p.Dir)
	}
}

// isLicense matches the names of files that a distributor must include, and isSource those of source
// files, such as license.go.
var (
	isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)
	isSource  = regexp.MustCompile(`\.(go|s|sh|tmpl)$`)
)

// licenses returns the license files in the root folder of the module, and between it and the linked
// packages. The root folder must have at least one license. A notice is not a license.
func (m *module) licenses() (string, error) {
	folders := []string{m.root}
	for _, folder := range m.folders {
		for folder != m.root {
			folders = append(folders, folder)
			folder = filepath.Dir(folder)
		}
	}
	slices.Sort(folders)
	var text strings.Builder
	found := false
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.path, err)
		}
		for _, entry := range entries {
			if !isLicense.MatchString(entry.Name()) || isSource.MatchString(entry.Name()) || entry.IsDir() {
				continue
			}
			file := filepath.Join(folder, entry.Name())
			content, err := os.ReadFile(file) //nolint:gosec // G304: a file of a module
			if err != nil {
				return "", err
			}
			name := strings.ToLower(entry.Name())
			found = found || folder == m.root && (strings.HasPrefix(name, "licen") || strings.HasPrefix(name, "copying"))
			fmt.Fprintf(&text, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version,
				strings.TrimPrefix(file, m.root+"/"), bytes.TrimSpace(content))
		}
	}
	if !found {
		return "", fmt.Errorf("module %s %s has no license file in %s", m.path, m.version, m.root)
	}
	return text.String(), nil
}
