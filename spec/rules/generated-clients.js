// Lint rules against constructs that OpenAPI allows but client generators handle badly.

const kinds = 'schemas|parameters|responses|requestBodies|headers|examples|links|securitySchemes';
const component = new RegExp(`^#(?:/components)?/(${kinds})/([^/]+)$`);

/** Component names are unique across kinds, because generators put all components into one namespace. */
export const distinctComponentNames = () => {
  const kindsByName = new Map();
  const check = (_node, { location, report }) => {
    const [, kind, name] = component.exec(location.pointer) ?? [];
    if (name === undefined) return;
    const first = kindsByName.get(name) ?? kind;
    kindsByName.set(name, first);
    if (first !== kind) report({ message: `${first} and ${kind} both have the name ${name}: rename one of them` });
  };
  return {
    Schema: check,
    Parameter: check,
    Response: check,
    RequestBody: check,
    Header: check,
    Example: check,
    Link: check,
    SecurityScheme: check,
  };
};

const methods = ['get', 'post', 'put', 'patch', 'delete'];

/** An operation does not override parameters of its path, because generators would list them twice. */
export const noOverriddenParameters = () => ({
  PathItem(item, ctx) {
    const toKey = (node) => {
      const { in: place, name } = node.$ref ? ctx.resolve(node).node : node;
      return `${place} ${name}`;
    };
    const shared = new Set((item.parameters ?? []).map(toKey));
    for (const method of methods)
      for (const parameter of item[method]?.parameters ?? [])
        if (shared.has(toKey(parameter)))
          ctx.report({
            message: `the path and its operation both declare the parameter ${toKey(parameter)}: declare it in the operations only`,
            location: ctx.location.child([method, 'parameters']),
          });
  },
});
