/** Names of the sample library's people, places and books. All are made up. */

type Words = readonly [string, ...string[]];

const words = (text: string): Words => {
  const [first = '', ...rest] = text.trim().split(/\s*,\s*/);
  return [first, ...rest];
};

export const firstNames = words(`Ada, Amara, Anton, Aylin, Beatriz, Benedikt, Chidi, Clara, Daniel,
  Dilek, Edith, Elias, Emeka, Esther, Farid, Fiona, Gabriel, Greta, Hana, Henrik, Ines, Ivan, Jamila,
  Jonas, Kaito, Katarina, Lars, Leila, Lucia, Mateo, Mei, Mira, Nadia, Noah, Olga, Oscar, Paula, Pavel,
  Quentin, Rania, Rosa, Samuel, Selma, Tariq, Theresa, Ulrike, Vera, Viktor, Wanda, Yusuf, Zoe`);

export const lastNames = words(`Abara, Aydin, Bakker, Becker, Borges, Castillo, Chen, Dahl, Dubois,
  Eze, Ferrari, Fischer, Garcia, Gruber, Hansen, Horvat, Ito, Jansen, Kamara, Keller, Kovacs, Larsen,
  Lindgren, Lopez, Marino, Meyer, Mori, Nakamura, Novak, Okafor, Olsen, Park, Petrov, Quist, Ricci,
  Rossi, Santos, Sato, Schmid, Silva, Sorensen, Tanaka, Torres, Ueda, Varga, Vogel, Weber, Yilmaz,
  Zhang, Zimmer`);

export const countries = words(`Argentina, Austria, Brazil, Canada, China, Denmark, Egypt, France,
  Germany, Hungary, India, Italy, Japan, Mexico, Nigeria, Norway, Poland, Portugal, Spain, Turkey`);

export const genres = words(`novel, crime, science fiction, poetry, history, biography, travel,
  natural history, children, essays`);

export const languages = words('English, English, English, German, French, Spanish, Italian');

export const adjectives = words(`Blue, Borrowed, Bright, Broken, Distant, Early, Forgotten, Hidden,
  Hollow, Last, Lost, Narrow, Northern, Open, Patient, Quiet, Red, Salt, Second, Silent, Slow, Small,
  Southern, Tall, Unfinished, Wild, Winter`);

export const nouns =
  words(`Archive, Bridge, Cartographer, Clock, Coast, Door, Ferry, Forest, Garden,
  Harbour, Island, Key, Lantern, Letter, Library, Lighthouse, Map, Mirror, Mountain, Orchard, Painter,
  Railway, River, Road, Season, Shadow, Snow, Station, Stone, Storm, Street, Summer, Tide, Tower,
  Valley, Visitor, Voyage, Watchmaker, Wind, Window`);

export const places = words(`Alder Bay, Bergen, Cadiz, Eastmoor, Fenwick, Genoa, Halden, Izmir,
  Kyoto, Lisbon, Marrow Hill, Oaxaca, Porto, Quay Street, Riga, Trieste, Ulm, Vesterby, Whitby, Zadar`);

export const branches = [
  { name: 'Central', street: '1 Market Square', opened: '1931-05-04' },
  { name: 'Harbour', street: '12 Quay Street', opened: '1958-09-15' },
  { name: 'Northside', street: '88 Alder Road', opened: '1974-03-01' },
  { name: 'University', street: '3 College Lane', opened: '1989-10-02' },
  { name: 'Old Mill', street: '27 Mill Yard', opened: '2011-06-18' },
] as const;
