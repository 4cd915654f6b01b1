package config

import "reflect"

// prepare makes the target hold exactly what decoding must find: optional
// sections that are not given are nil, those given and list elements stand
// there with their defaults, and lists and maps given do not mix with theirs.
func prepare(v reflect.Value, f *field, n *node) {
	for _, c := range f.children {
		if c.kind == twin {
			continue
		}
		fv, kid := v.Field(c.index), n.kid(c.name)
		switch {
		case c.optional && kid == nil:
			fv.SetZero()
		case c.optional:
			fresh := reflect.New(c.typ)
			if !fv.IsNil() {
				fresh.Elem().Set(fv.Elem())
			}
			prepare(fresh.Elem(), c, kid)
			fv.Set(fresh)
		case c.kind == section:
			prepare(fv, c, kid)
		case c.kind == list && c.elem.kind == section:
			fv.Set(prepareItems(fv, c, kid))
		case (c.kind == list || c.kind == dict) && kid != nil && kid.shape != null:
			fv.SetZero()
		}
	}
}

// prepareItems makes as many copies of the first element, the pattern, as the
// list has.
func prepareItems(v reflect.Value, f *field, n *node) reflect.Value {
	if n == nil || len(n.items) == 0 {
		return reflect.Zero(v.Type())
	}
	items := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		if v.Len() > 0 {
			items.Index(i).Set(v.Index(0))
		}
		prepare(items.Index(i), f.elem, item)
	}
	return items
}
