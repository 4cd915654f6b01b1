// Package configtest checks the configurations of both services.
package configtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway/shared/config"
	"slipway/shared/programtest"
)

// WantRead fails for each setting of a configuration whose field no package that imports the configuration reads, by itself or by a
// function of the configuration's package: the service would ignore the setting. It compares names, so a field with a common name
// may escape it. otherwise are sections and settings that are read in another way.
func WantRead(t *testing.T, configuration any, otherwise ...string) {
	t.Helper()
	typ := reflect.TypeOf(configuration)
	own := filepath.Join(programtest.Root(t), strings.TrimPrefix(typ.PkgPath(), "slipway/"))
	r := reader{t, map[string]bool{}, map[string][]ast.Node{}}
	for dir, files := range r.packages(filepath.Join(programtest.Root(t), strings.Split(typ.PkgPath(), "/")[1])) {
		switch {
		case dir == own:
			r.declare(files)
		case slices.ContainsFunc(files, func(f *ast.File) bool { return imports(f, typ.PkgPath()) }):
			for _, f := range files {
				r.use(f)
			}
		}
	}
	r.check(typ, "", otherwise)
}

type reader struct {
	t         *testing.T
	read      map[string]bool       // names that are selected
	functions map[string][]ast.Node // of the configuration's package, by name, until they are called
}

// packages returns the files of each directory below root, without tests.
func (r *reader) packages(root string) map[string][]*ast.File {
	all := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		all[filepath.Dir(path)] = append(all[filepath.Dir(path)], f)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(path) })
}

func (r *reader) declare(files []*ast.File) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				r.functions[fn.Name.Name] = append(r.functions[fn.Name.Name], fn.Body)
			}
		}
	}
	for name := range r.read { // of packages that came first
		r.name(name)
	}
}

func (r *reader) use(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs { // which often has the setting's name
				if field, ok := to.(*ast.SelectorExpr); ok {
					to = field.X
				}
				r.use(to)
			}
			for _, from := range n.Rhs {
				r.use(from)
			}
			return false
		case *ast.SelectorExpr:
			if n.Sel.IsExported() { // not the methods that validate
				r.name(n.Sel.Name)
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok {
				r.name(fn.Name)
			}
		}
		return true
	})
}

// name records a name that is selected or called. If it is a function of the configuration's, what that reads is read, too.
func (r *reader) name(name string) {
	r.read[name] = true
	bodies := r.functions[name]
	delete(r.functions, name)
	for _, body := range bodies {
		r.use(body)
	}
}

var unread = []reflect.Type{reflect.TypeFor[config.Dead](), reflect.TypeFor[config.Refused]()}

func (r *reader) check(typ reflect.Type, path string, otherwise []string) {
	r.t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || slices.Contains(otherwise, strings.TrimPrefix(path, ".")) {
		return
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		key, ok := f.Tag.Lookup("key")
		if !ok || slices.Contains(unread, f.Type) {
			continue
		}
		if !r.read[f.Name] && !slices.Contains(otherwise, strings.TrimPrefix(path+"."+key, ".")) {
			r.t.Errorf("no package reads %s (%s)", strings.TrimPrefix(path+"."+key, "."), f.Name)
		}
		r.check(f.Type, path+"."+key, otherwise)
	}
}
