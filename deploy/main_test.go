package deploy_test

import (
	"os"
	"testing"

	"poold/internal/daemontest"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }
