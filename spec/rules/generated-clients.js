// Rules about what generators of clients stumble over, although OpenAPI allows it.

const kinds = 'schemas|parameters|responses|requestBodies|headers|examples|links|securitySchemes';
const component = new RegExp(`^#(?:/components)?/(${kinds})/([^/]+)$`);

/** Generators write components of every kind into one namespace, so a name belongs to one kind only. */
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

/** Generators list the parameters of a path and of its operation one after the other, so neither repeats the other's. */
export const noOverriddenParameters = () => ({
  PathItem(item, ctx) {
    const keyOf = (node) => {
      const { in: place, name } = node.$ref ? ctx.resolve(node).node : node;
      return `${place} ${name}`;
    };
    const shared = new Set((item.parameters ?? []).map(keyOf));
    for (const method of methods)
      for (const parameter of item[method]?.parameters ?? [])
        if (shared.has(keyOf(parameter)))
          ctx.report({
            message: `the path and its operation both declare the parameter ${keyOf(parameter)}: declare it in the operations only`,
            location: ctx.location.child([method, 'parameters']),
          });
  },
});
