// The vocabulary of the demo workspace: places, names and sentences.
// Phone numbers come only from ranges that regulators reserve for fiction, and web addresses only
// from the reserved domain .example.

/** Numbers from prefix + first to prefix + last, padded to the digits. */
export interface NumberRange {
  prefix: string;
  digits: number;
  first?: number;
}

export interface City {
  city: string;
  state: string;
  postalCode: string;
  landlines: readonly NumberRange[];
}

export interface Country {
  code: string;
  legalForm: string;
  mobiles: readonly NumberRange[];
  places: readonly City[];
  firstNames: readonly string[];
  lastNames: readonly string[];
  streets: readonly string[];
}

/** Splits a text with several names. Single texts keep the lists readable. */
const splitNames = (text: string): readonly string[] => text.split(', ');

const buildCity = (city: string, state: string, postalCode: string, prefix: string, digits: number): City => ({
  city,
  state,
  postalCode,
  landlines: [{ prefix, digits }],
});

export const countries: readonly Country[] = [
  {
    code: 'DE',
    legalForm: 'GmbH',
    mobiles: [
      { prefix: '+4917139200', digits: 2 },
      { prefix: '+49176040690', digits: 2 },
    ],
    places: [
      buildCity('Berlin', 'Berlin', '10115', '+493023125', 3),
      buildCity('Hamburg', 'Hamburg', '20457', '+494066969', 3),
      buildCity('München', 'Bayern', '80331', '+498999998', 3),
      buildCity('Köln', 'Nordrhein-Westfalen', '50667', '+492214710', 3),
      buildCity('Frankfurt am Main', 'Hessen', '60311', '+496990009', 3),
    ],
    firstNames: splitNames(
      'Anna, Ben, Clara, David, Elif, Felix, Greta, Hannes, Ines, Jan, Katrin, Leon, Mehmet, Nele, Oskar, Paula, Robert, Sophie, Till, Ulrike',
    ),
    lastNames: splitNames(
      'Albrecht, Becker, Brandt, Dietrich, Fischer, Graf, Hartmann, Jansen, Keller, Lorenz, Möller, Neumann, Otto, Peters, Roth, Schäfer, Simon, Vogel, Winter, Yilmaz',
    ),
    streets: splitNames('Lindenstraße, Hafenstraße, Gartenweg, Bahnhofstraße, Am Werk, Industriestraße'),
  },
  {
    code: 'GB',
    legalForm: 'Ltd',
    mobiles: [{ prefix: '+447700900', digits: 3 }],
    places: [
      buildCity('London', 'Greater London', 'E14 5AB', '+442079460', 3),
      buildCity('Manchester', 'Greater Manchester', 'M1 2AB', '+441614960', 3),
      buildCity('Birmingham', 'West Midlands', 'B1 1AB', '+441214960', 3),
      buildCity('Leeds', 'West Yorkshire', 'LS1 4AB', '+441134960', 3),
      buildCity('Bristol', 'Bristol', 'BS1 5AB', '+441174960', 3),
    ],
    firstNames: splitNames(
      'Alice, Aisha, Callum, Charlotte, Daniel, Emily, Fiona, George, Hannah, Imran, Jack, Kate, Liam, Megan, Nathan, Olivia, Peter, Rachel, Sam, Zoe',
    ),
    lastNames: splitNames(
      'Ahmed, Bennett, Carter, Dawson, Ellis, Foster, Grant, Hughes, Ingram, Jenkins, Khan, Lawson, Marsh, Norris, Osborne, Palmer, Reid, Shaw, Turner, Webb',
    ),
    streets: splitNames('Station Road, Mill Lane, Dock Street, Foundry Way, Park Avenue, Canal Street'),
  },
  {
    code: 'FR',
    legalForm: 'SARL',
    mobiles: [{ prefix: '+3363998', digits: 4 }],
    places: [
      buildCity('Paris', 'Île-de-France', '75011', '+3319900', 4),
      buildCity('Nantes', 'Pays de la Loire', '44000', '+3326191', 4),
      buildCity('Strasbourg', 'Grand Est', '67000', '+3335301', 4),
      buildCity('Lyon', 'Auvergne-Rhône-Alpes', '69002', '+3346571', 4),
      buildCity('Bordeaux', 'Nouvelle-Aquitaine', '33000', '+3353649', 4),
    ],
    firstNames: splitNames(
      'Adèle, Bastien, Camille, Damien, Élise, Fabien, Gaëlle, Hugo, Inès, Julien, Karim, Léa, Mathieu, Nadia, Olivier, Pauline, Quentin, Salomé, Théo, Yasmine',
    ),
    lastNames: splitNames(
      'Aubert, Blanc, Chevalier, Deschamps, Fabre, Garnier, Haddad, Joly, Lambert, Marchand, Noël, Perrin, Renard, Roussel, Simon, Tessier, Vidal',
    ),
    streets: splitNames('rue des Lilas, quai du Port, avenue de la Gare, rue du Moulin, boulevard de la Paix'),
  },
  {
    code: 'IE',
    legalForm: 'Ltd',
    mobiles: [{ prefix: '+3532091', digits: 5, first: 50_000 }],
    places: [
      buildCity('Dublin', 'Leinster', 'D02 X285', '+35320910', 4),
      buildCity('Cork', 'Munster', 'T12 W8KP', '+35320911', 4),
      buildCity('Galway', 'Connacht', 'H91 E2R8', '+35320912', 4),
    ],
    firstNames: splitNames(
      'Aoife, Brendan, Ciara, Declan, Eimear, Finn, Gráinne, Hugh, Maeve, Niall, Orla, Rory, Sinéad, Tadhg',
    ),
    lastNames: splitNames(
      'Brennan, Byrne, Doyle, Fitzgerald, Flynn, Kavanagh, Keane, Moran, Nolan, Quinn, Sheridan, Walsh',
    ),
    streets: splitNames('Harbour Road, Main Street, Patrick Street, Abbey Lane'),
  },
  {
    code: 'SE',
    legalForm: 'AB',
    mobiles: [{ prefix: '+467017406', digits: 2, first: 5 }],
    places: [
      buildCity('Stockholm', 'Stockholms län', '111 29', '+468465004', 2),
      buildCity('Göteborg', 'Västra Götaland', '411 03', '+463139006', 2),
      buildCity('Malmö', 'Skåne', '211 18', '+464062804', 2),
    ],
    firstNames: splitNames(
      'Alva, Birger, Ebba, Elias, Frida, Gustav, Ingrid, Johan, Karin, Lars, Maja, Nils, Saga, Viktor',
    ),
    lastNames: splitNames(
      'Andersson, Bergström, Dahl, Ekström, Forsberg, Hedlund, Holm, Lindgren, Nyström, Sandberg, Åkesson, Öberg',
    ),
    streets: splitNames('Storgatan, Hamngatan, Kyrkogatan, Parkvägen'),
  },
];

/** The share of companies in each country. */
export const countryWeights = { DE: 40, GB: 25, FR: 15, IE: 10, SE: 10 } as const;

export const companyWords = splitNames(
  'Alder, Amberfield, Anchorage, Ashbrook, Beacon, Birchwood, Bluestone, Brightwater, Cedar Hill, Clearbrook, Cloverdale, Copperfield, Coral, Eastgate, Elmwood, Fairlight, Fernhill, Flint, Foxglove, Goldcrest, Greenacre, Harborview, Hazelbrook, Heron, Highmoor, Hollybank, Ironbridge, Juniper, Kestrel, Kingfisher, Lakeside, Larkspur, Limestone, Lindenhof, Longmeadow, Mapleton, Marlow, Millbrook, Moorland, Northpoint, Oakridge, Orchard, Pebble, Pinecrest, Quarry, Redwood, Riverside, Rosehill, Saffron, Sandstone, Silverbirch, Skylark, Southbank, Starling, Stonebridge, Sunnyside, Thornfield, Tidewater, Upland, Valley, Waterford, Westbrook, Willow, Windmill, Woodland, Yarrow',
);

/** Industries, and the words in the names of their companies. */
export const sectors: readonly { industry: string; names: readonly string[]; employees: readonly [number, number] }[] =
  [
    { industry: 'Logistics', names: splitNames('Logistics, Freight, Warehousing'), employees: [40, 900] },
    { industry: 'Food production', names: splitNames('Bakery, Foods, Dairy'), employees: [20, 400] },
    { industry: 'Retail', names: splitNames('Stores, Home & Garden, Furniture'), employees: [30, 1200] },
    { industry: 'Manufacturing', names: splitNames('Metalworks, Plastics, Machinery'), employees: [25, 800] },
    { industry: 'Hospitality', names: splitNames('Hotels, Resort, Catering'), employees: [15, 250] },
    { industry: 'Agriculture', names: splitNames('Farms, Orchards, Growers'), employees: [8, 90] },
    { industry: 'Property', names: splitNames('Estates, Housing, Business Park'), employees: [10, 150] },
    { industry: 'Health care', names: splitNames('Clinic, Care Homes, Laboratories'), employees: [30, 500] },
  ];

export const jobTitles = splitNames(
  'Managing Director, Operations Manager, Facility Manager, Head of Purchasing, Energy Manager, Site Manager, Chief Financial Officer, Owner, Sustainability Officer, Technical Director',
);

export const roofTypes = [
  { label: 'Flat', value: 'flat' },
  { label: 'Pitched', value: 'pitched' },
  { label: 'Industrial sheet', value: 'industrial_sheet' },
  { label: 'Car park', value: 'car_park' },
] as const;

export const inquiries = [
  'We would like a quote for the roof of our main building, about {area} square metres.',
  'Our electricity bill went up again. What would a system for {area} m² of roof cost, and when would it pay off?',
  'We are planning a new hall and want solar on it from the start. Who can visit us?',
  'Looking for battery storage to go with an existing system of {kwp} kWp.',
  'Do you also do carports with charging points? We have about 60 parking spaces.',
  'Please call us back about a maintenance contract for two sites.',
  'We must report our emissions from next year and look for a partner for all our sites.',
];

export const leadNotes = [
  'Prefers to be called before noon.',
  'Has an offer of a competitor on the table.',
  'Budget is decided in the next quarter.',
  'Met at the trade fair, wants references from the same industry.',
  'The roof was renewed recently, documents are available.',
];

export const disqualified = [
  'Rents the building; the owner does not want changes to the roof.',
  'The roof cannot carry the load.',
  'Only looking for a rough price.',
  'Outside our area.',
];

export const lostReasons = splitNames(
  'Price, Went with a competitor, No budget this year, Roof not suitable, Project postponed, Stopped responding',
);

/** Products, with the price per kilowatt peak in minor units. */
export const products = [
  { name: 'Rooftop system {kwp} kWp', pricePerKwp: 105_000 },
  { name: 'Rooftop system with storage, {kwp} kWp', pricePerKwp: 148_000 },
  { name: 'Carport system {kwp} kWp', pricePerKwp: 165_000 },
  { name: 'Maintenance contract, {kwp} kWp', pricePerKwp: 2_400 },
] as const;

/** Summaries of contacts, by activity type. */
export const summaries = {
  Call: splitNames(
    'Talked about the roof and the timeline, Left a message on the mailbox, Answered questions about the warranty, Agreed on a site visit, Asked for the last electricity bills',
  ),
  Email: splitNames(
    'Sent the brochure and two references, Sent the offer, Sent the yield calculation, Answered questions about financing, Sent a reminder',
  ),
  Meeting: splitNames(
    'Walked over the roof together, Presented the offer to the management, Video call with the technician',
  ),
  Note: splitNames(
    'The decision is with the board, The grid operator needs four weeks, New contact person from next month',
  ),
  LinkedIn: splitNames('Connected, Shared a case study'),
  WhatsApp: splitNames('Sent photos of a similar roof, Confirmed the appointment'),
} as const;

export const activityDetails = [
  'They want to decide within the next weeks. The offer should show the price with and without storage.',
  'Consumption is highest in the morning; a system facing east and west would fit best.',
  'The load reserve of the roof has to be checked by an engineer first.',
  'They asked about monitoring and who looks after the system in the first two years.',
];

export const taskTitles = {
  Call: splitNames('Call back about the offer, Ask for the load report, Call to arrange the site visit'),
  Email: splitNames('Send the yield calculation, Send references, Send the revised offer'),
  Meeting: splitNames('Prepare the meeting with the management, Arrange the handover'),
  'Follow-up': splitNames('Follow up on the offer, Check whether the board has decided'),
  Proposal: splitNames('Write the offer, Update the offer with storage'),
  'To-do': splitNames('Apply for the grid connection, Order the roof survey, Check the subsidy'),
} as const;

export const findings = [
  'Roof in good condition, no shade, access by ladder.',
  'Two skylights and a chimney shade the north side.',
  'Cable route to the meter room is about 40 metres.',
  'The membrane is old and should be renewed before the installation.',
];
